"""What is needed of an executor, whichever kind it is."""

from collections.abc import Sequence
from typing import Protocol

from pyoco_server.records.models import JournalEntry, LogLine
from pyoco_server.records.wait_models import Question
from pyoco_server.worker.ipc.protocol import Limited, Outcome, Progress, Run


class ExecutorCrashed(Exception):
    """The executor ended while it had a run: how, and the end of what it printed."""

    def __init__(self, how: str, output: str = "") -> None:
        super().__init__(how)
        self.output = output


class TaskOverdue(ExecutorCrashed):
    """The executor was ended because a task was past its limit and nothing was heard of it."""

    def __init__(self, task: Limited) -> None:
        super().__init__(f"it took longer than its limit of {task.limit_sec:g} s")
        self.task = task


class ExecutorFailedToStart(Exception):
    """No executor could be made; the text says why."""


class RunEvents(Protocol):
    """Who hears what happens in a run while it lasts."""

    def finished(self, entry: JournalEntry) -> None:
        """A task has finished, and left this behind."""

    def asked(self, question: Question) -> None:
        """A task asks a person something, and nobody has answered yet."""

    def printed(self, lines: list[LogLine]) -> None:
        """The run has printed these lines."""


class RunExecutor(Protocol):
    """What the session of a run needs."""

    async def start(self) -> None:
        """Be ready for a run; ExecutorFailedToStart says why that is not possible."""

    async def execute(self, run: Run, events: RunEvents) -> Outcome:
        """Run a flow to its end; ExecutorCrashed if the process dies on the way."""

    def progress(self) -> Progress | None:
        """What is known of the run under way, without waiting for it."""

    def cancel(self, run_id: str) -> None:
        """Ask the flow of the run to stop by itself."""

    async def give_up(self, status: str, error: str) -> None:
        """End the run under way by force, but let it tell what it had reached: its `execute` returns."""

    async def abandon(self) -> None:
        """End the run under way at once: its `execute` raises ExecutorCrashed."""


class Executor(RunExecutor, Protocol):
    """What its worker needs as well."""

    def retire(self) -> None:
        """The code has changed: load it anew before the next run."""

    def use_code(self, folders: Sequence[str]) -> None:
        """From the next run on, have imports look into these folders first."""

    @property
    def code_in_use(self) -> Sequence[str]:
        """Into which of them the run under way looks; none without one."""

    async def close(self) -> None: ...
