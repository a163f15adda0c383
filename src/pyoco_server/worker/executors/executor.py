"""The interface of executors: for the session of a run, and for the worker."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from pyoco_server.records.runs.journal_models import JournalEntry
from pyoco_server.records.runs.log_models import LogLine
from pyoco_server.records.waits.wait_models import Question
from pyoco_server.worker.ipc.protocol import LimitStarted, Outcome, OutputPart, Progress, Run


class ExecutorCrashed(Exception):
    """The executor exited during a run; with the end of its output."""

    def __init__(self, how: str, output: str = "") -> None:
        super().__init__(how)
        self.output = output


class TaskTimedOut(ExecutorCrashed):
    """The executor was killed because a task exceeded its limit and the executor did not report it."""

    def __init__(self, task: LimitStarted) -> None:
        super().__init__(f"it took longer than its limit of {task.limit_sec:g} s")
        self.task = task


class ExecutorFailedToStart(Exception):
    """No executor could be started; the text says why."""


class RunEvents(Protocol):
    """Called while a run lasts."""

    def on_finished(self, entry: JournalEntry) -> None: ...
    def on_asked(self, question: Question) -> None: ...
    def on_printed(self, lines: list[LogLine]) -> None: ...
    def on_files_written(self, task: str, saved: Mapping[str, str], on_stored: Callable[[], None]) -> None:
        """The task waits until `on_stored` is called."""

    def on_output_part(self, part: OutputPart, resume: Callable[[], None]) -> bool:
        """Whether there is room for more; if not, `resume` is called when there is."""


class RunExecutor(Protocol):
    """What the session of a run needs of an executor."""

    @property
    def code_version(self) -> str | None:
        """Of the process that has or had the run last; empty if it is not known, None before there is one."""

    async def start(self) -> None:
        """Be ready for a run, or raise ExecutorFailedToStart."""

    async def execute(self, run: Run, events: RunEvents) -> Outcome:
        """Run a flow to its end; ExecutorCrashed if the process exits on the way."""

    def progress(self) -> Progress | None:
        """The last known progress of the run, without waiting."""

    def cancel(self, run_id: str) -> None:
        """Ask the flow of the run to stop by itself."""

    async def force_end(self, status: str, error: str) -> None:
        """End the run now, with the records that it has: its `execute` returns."""

    async def kill(self) -> None:
        """End the run at once, without its records: its `execute` raises ExecutorCrashed."""


class Executor(Protocol):
    """What the worker needs of an executor."""

    def retire(self) -> None:
        """The code has changed: load it again before the next run."""

    def use_code(self, folders: Sequence[str]) -> None:
        """Put these folders first on the import path, from the next run on."""

    @property
    def code_in_use(self) -> Sequence[str]:
        """The folders that the current run imports from; empty without a run."""

    async def close(self) -> None: ...
