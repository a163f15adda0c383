"""Which results of the original run a rerun reuses: the journal entries that stay valid."""

from collections.abc import Sequence

from pyoco.core.models import Flow, Task

from pyoco_server.records.runs.journal_models import JournalEntry


def downstream(flow: Flow, name: str) -> set[str]:
    """The task of this name and all tasks that depend on it."""
    found: set[str] = set()
    pending: list[Task] = [task for task in flow.tasks if task.name == name]
    while pending:
        task = pending.pop()
        if task.name not in found:
            found.add(task.name)
            pending.extend(task.dependents)
    return found


def reusable(flow: Flow, journal: Sequence[JournalEntry], rerun_task: str | None) -> Sequence[JournalEntry]:
    """The entries that are valid for this execution; entries of this run itself always are."""
    if not journal:
        return journal
    # A rerun executes again what failed in the original run.
    journal = [entry for entry in journal if entry.attempt or entry.error is None]
    if rerun_task is None:
        return journal
    if flow.has_control_flow():
        return _before_first(journal, rerun_task)
    again = downstream(flow, rerun_task)
    return [entry for entry in journal if entry.attempt or entry.task not in again]


def _before_first(journal: Sequence[JournalEntry], task: str) -> Sequence[JournalEntry]:
    """Loops and branches depend on everything before them: nothing after the task's first start is valid."""
    copied = [entry for entry in journal if not entry.attempt]
    first = next((index for index, entry in enumerate(copied) if entry.task == task), len(copied))
    return [*copied[:first], *(entry for entry in journal if entry.attempt)]
