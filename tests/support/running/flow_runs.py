"""Runs a flow in this process as an executor does, with a journal and without a worker."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from pyoco import Flow
from pyoco.core.models import Task
from pyoco.dsl.syntax import TaskWrapper

from pyoco_server.records.runs.causes import Cause
from pyoco_server.records.runs.journal_models import JournalEntry
from pyoco_server.records.runs.log_models import LogLine
from pyoco_server.records.waits.wait_models import Question, WaitRecord, encode
from pyoco_server.worker.child.printed_lines import TaskOutput
from pyoco_server.worker.engine.flow_run import FlowRun, RunListener
from pyoco_server.worker.engine.tasks.task_calls import RetryBackoff
from pyoco_server.worker.ipc.protocol import Outcome, OutputPart, Run

NO_BACKOFF = RetryBackoff(0.0, 0.0)


class Executed(list[str]):
    """The names of executed tasks, in order."""

    def task(self, name: str, function: Callable[..., Any] = lambda: None, **options: Any) -> TaskWrapper:
        def recorded(**inputs: Any) -> Any:
            self.append(name)
            return function(**inputs)

        recorded.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
        return TaskWrapper(Task(func=recorded, name=name, **options))

    def chain(self, *names: str) -> Flow:
        flow = Flow("chain")
        for name in names:
            flow = flow >> self.task(name)
        return flow


def record(outcome: Outcome, task: str) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(outcome.task_records[task])
    return found


def output(outcome: Outcome, task: str) -> Any:
    return record(outcome, task)["output"]


def outputs(outcome: Outcome) -> dict[str, Any]:
    return {name: output(outcome, name) for name in outcome.task_records}


class FlowUnderTest:
    """Executes a flow repeatedly, each time with a given journal."""

    def __init__(
        self,
        flow: Flow,
        *,
        backoff: RetryBackoff = NO_BACKOFF,
        max_value_bytes: int = 1 << 20,
        max_result_bytes: int = 1 << 30,
        max_records_bytes: int = 1 << 18,
    ) -> None:
        self._flow = flow
        self._pauses = backoff
        self._max_value_bytes = max_value_bytes
        self._max_result_bytes = max_result_bytes
        self._max_records_bytes = max_records_bytes
        self.parts: list[OutputPart] = []
        self.written: list[JournalEntry] = []
        self.asked: list[Question] = []
        self.stuck: list[Outcome] = []
        self.lines: list[LogLine] = []

    def prepare(
        self,
        params: dict[str, Any] | None = None,
        journal: Sequence[JournalEntry] = (),
        *,
        attempt: int = 1,
        rerun_task: str | None = None,
        waits: Sequence[WaitRecord] = (),
        api_key_id: str | None = None,
        cause: Cause | None = None,
    ) -> FlowRun:
        run = Run(
            run_id="r",
            flow_name=self._flow.name,
            params=b"{}",
            attempt=attempt,
            journal=list(journal),
            rerun_task=rerun_task,
            waits=encode(list(waits)) if waits else b"",
            api_key_id=api_key_id,
            cause=cause,
        )
        return FlowRun(run, self._flow, dict(params or {}), self.listener())

    def listener(self) -> RunListener:
        output = TaskOutput(self.lines.extend, line_limit=1000, run_limit=100_000)
        return RunListener(
            finished=self.written.append,
            asked=self.asked.append,
            stuck=lambda outcome, _: self.stuck.append(outcome()),
            output_tail=output.output_tail,
            note=output.note,
            watchers=[output],
            limit_watchers=[],
            backoff=self._pauses,
            max_value_bytes=self._max_value_bytes,
            store=self.parts.append,
            max_result_bytes=self._max_result_bytes,
            max_records_bytes=self._max_records_bytes,
        )

    def execute(
        self,
        params: dict[str, Any] | None = None,
        journal: Sequence[JournalEntry] = (),
        **how: Any,
    ) -> Outcome:
        outcome = self.prepare(params, journal, **how).execute()
        assert outcome is not None
        return outcome


MakeFlow = Callable[[Executed], Flow]


def journal_of(make: MakeFlow, params: dict[str, Any] | None = None, **limits: Any) -> list[JournalEntry]:
    """What a whole execution writes."""
    run = FlowUnderTest(make(Executed()), **limits)
    outcome = run.execute(params)
    assert outcome.status == "COMPLETED", outcome.error
    return run.written


def resumed(
    make: MakeFlow,
    journal: Sequence[JournalEntry],
    params: dict[str, Any] | None = None,
    *,
    attempt: int = 2,
    **how: Any,
) -> tuple[Executed, Outcome]:
    """What a next attempt executes, and its outcome."""
    executed = Executed()
    outcome = FlowUnderTest(make(executed)).execute(params, journal, attempt=attempt, **how)
    assert outcome.status == "COMPLETED", outcome.error
    return executed, outcome


def copied(entries: Sequence[JournalEntry]) -> list[JournalEntry]:
    """The journal of a run as a rerun reads it."""
    return [msgspec.structs.replace(entry, attempt=0) for entry in entries]
