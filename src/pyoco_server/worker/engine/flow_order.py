"""How the tasks of a flow follow each other, and what of a journal holds when a flow is repeated."""

from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter

from pyoco.core.models import Flow, Task

from pyoco_server.records.models import JournalEntry


def in_order(flow: Flow) -> list[str]:
    """The names of the tasks as the flow goes through them; by name where it does not say."""
    if len(flow.tasks) == 1:
        return [task.name for task in flow.tasks]
    before = {task.name: {earlier.name for earlier in task.dependencies} for task in flow.tasks}
    sorter = TopologicalSorter({name: before[name] & before.keys() for name in sorted(before)})
    try:
        return list(sorter.static_order())
    except CycleError:
        # Loops link a task to itself or backwards.
        return sorted(before)


def reusable(flow: Flow, journal: Sequence[JournalEntry], rerun_task: str | None) -> Sequence[JournalEntry]:
    """The entries that hold for this execution. What this run made itself does, whatever it repeats."""
    if not journal:
        return journal
    # A rerun tries again what had failed in the run that it repeats.
    journal = [entry for entry in journal if entry.attempt or entry.error is None]
    if rerun_task is None:
        return journal
    if flow.has_control_flow():
        return _before_first(journal, rerun_task)
    again = with_followers(flow, rerun_task)
    return [entry for entry in journal if entry.attempt or entry.task not in again]


def _before_first(journal: Sequence[JournalEntry], task: str) -> Sequence[JournalEntry]:
    """Loops and branches depend on all that went before: nothing after the task's beginning holds."""
    copied = [entry for entry in journal if not entry.attempt]
    first = next((index for index, entry in enumerate(copied) if entry.task == task), len(copied))
    return [*copied[:first], *(entry for entry in journal if entry.attempt)]


def with_followers(flow: Flow, name: str) -> set[str]:
    """The task of this name and all behind it."""
    found: set[str] = set()
    waiting: list[Task] = [task for task in flow.tasks if task.name == name]
    while waiting:
        task = waiting.pop()
        if task.name not in found:
            found.add(task.name)
            waiting.extend(task.dependents)
    return found
