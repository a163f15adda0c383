"""Executes a flow in the process of a test, as a worker would, without NATS and without a gateway.

It is the executor of an embedded worker, with waits in memory. Sleeps and pauses between retries are skipped.
"""

import asyncio
import os
import time
from base64 import b64decode
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeVar
from uuid import uuid4

import msgspec
from pyoco.core.models import Flow

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import ResultNotFound
from pyoco_server.records.runs.artifact_models import ARTIFACTS
from pyoco_server.records.runs.journal_models import JournalEntry
from pyoco_server.records.runs.log_models import LogLine
from pyoco_server.records.runs.run_models import PARKED, Job, RunSnapshot, pending_snapshot
from pyoco_server.records.runs.task_outputs import BYTES
from pyoco_server.records.waits.wait_models import Question, WaitRecord
from pyoco_server.runs.lifecycle.run_result import result_of
from pyoco_server.testing.memory_waits import MemoryWaits, NoWaitEvents
from pyoco_server.testing.scripted_answers import (
    AskedQuestion,
    ScriptedAnswer,
    ScriptedAnswers,
    UnansweredQuestion,
)
from pyoco_server.testing.scripted_arrivals import Arrival, ScriptedArrivals, missing_arrival
from pyoco_server.worker.artifacts.artifact_folder import new_artifact, scan
from pyoco_server.worker.executors.thread_executor import ThreadExecutor
from pyoco_server.worker.ipc.protocol import Outcome, OutputPart, Run
from pyoco_server.worker.session.run_execution import terminal_snapshot
from pyoco_server.worker.session.run_questions import RunQuestions

T = TypeVar("T")

_CONFIG: Final = NatsBackendConfig(load_dotenv=False, task_retry_base_sec=0.0, task_retry_max_sec=0.0)


@dataclass(frozen=True, slots=True)
class FlowResult:
    """How the flow ended. Values of tasks are JSON, as the gateway returns them."""

    # COMPLETED, FAILED or CANCELLED.
    status: str
    # What `GET /runs/{run_id}/result` returns for it; None for a run that is not COMPLETED.
    result: Any
    # What each task that succeeded has returned.
    outputs: dict[str, Any]
    # The state of each task.
    tasks: dict[str, str]
    # As in `GET /runs/{run_id}/tasks`: state, times, inputs, output, error, calls, replayed, ...
    task_records: dict[str, dict[str, Any]]
    # Every question that was asked, in order.
    asked: list[AskedQuestion]
    # What the tasks have printed, line by line.
    log: list[str]
    # How long each `ctx.sleep` would have taken, in seconds and in order.
    slept: list[float]
    # The files of its artifacts folder, by name.
    artifacts: dict[str, bytes]
    # Of a failed run.
    reason: str | None = None
    error: str | None = None
    traceback: str | None = None


def run_flow(
    flow: Flow | Path,
    params: Mapping[str, Any] | None = None,
    *,
    answers: Mapping[str, ScriptedAnswer] | None = None,
    answered_by: str = "test",
    signals: Sequence[Arrival] = (),
    events: Sequence[Arrival] = (),
) -> FlowResult:
    """Execute a flow, or a flow.yaml file, to its end.

    `answers` has the answer of each task that asks, under the task's name, or under `task/name` for one of
    several questions: a JSON value, a function of the question, or EXPIRE. The answer to a proposal is as for
    `resume`: `{"decision": "approved"}`.

    `signals` and `events` have name and data of each one, in the order in which they are sent, all before the
    flow begins. A wait with a timeout for one that is not there times out. Sleeps take no time.

    Raises UnansweredQuestion for a question without an answer or a wait without a signal or event, and
    AnswerRefused for an answer that the
    gateway would not accept.
    """
    script = ScriptedAnswers(answers or {}, answered_by=answered_by)
    source = flow.read_text(encoding="utf-8") if isinstance(flow, Path) else None
    job = Job(
        run_id=str(uuid4()),
        flow_name=flow.stem if isinstance(flow, Path) else flow.name,
        tag=_CONFIG.default_tag,
        submitted_at=time.time(),
        # As they come out of a submit: a tuple is a list.
        params=msgspec.json.decode(msgspec.json.encode(dict(params or {}))),
        workflow_yaml=source,
    )
    arrivals = ScriptedArrivals(_plain(signals), _plain(events))
    # Also short sleeps are waits, which take no time here.
    executor = ThreadExecutor(lambda _: flow, _CONFIG, sleep_in_place_sec=0.0)
    with TemporaryDirectory(prefix="pyoco-test-", ignore_cleanup_errors=True) as folder:
        return _on_own_loop(_TestRun(job, executor, script, arrivals, folder).result())


def _plain(arrivals: Sequence[Arrival]) -> list[Arrival]:
    """With the data as it comes out of a request."""
    return [(name, msgspec.json.decode(msgspec.json.encode(data))) for name, data in arrivals]


class _TestRun:
    """One run: attempt after attempt, as long as there are answers. Implements RunEvents."""

    def __init__(
        self,
        job: Job,
        executor: ThreadExecutor,
        script: ScriptedAnswers,
        arrivals: ScriptedArrivals,
        folder: str,
    ) -> None:
        self._job = job
        self._executor = executor
        self._script = script
        self._arrivals = arrivals
        self._folder = folder
        waits = MemoryWaits(script, arrivals)
        self._questions = RunQuestions(waits, NoWaitEvents(), job, _CONFIG.wait_timeout_sec)
        self._journal: list[JournalEntry] = []
        self._log: list[str] = []
        self._artifacts: dict[str, bytes] = {}
        # Outputs that are too large for the record of their task.
        self._large: dict[str, bytearray] = {}

    def on_finished(self, entry: JournalEntry) -> None:
        self._journal.append(entry)

    def on_asked(self, question: Question) -> None:
        """Answered when nothing else can run."""

    def on_printed(self, lines: list[LogLine]) -> None:
        self._log += [line.text for line in lines]

    def on_files_written(self, task: str, saved: Mapping[str, str], on_stored: Callable[[], None]) -> None:
        """They stay in the folder."""
        on_stored()

    def on_output_part(self, part: OutputPart, resume: Callable[[], None]) -> bool:
        self._large.setdefault(part.task, bytearray()).extend(part.data)
        return True

    async def result(self) -> FlowResult:
        attempt = 1
        while True:
            outcome = await self._attempt(attempt)
            self._script.check_names(outcome.tasks)
            if outcome.status in PARKED:
                outcome = await self._questions.settle(outcome, may_continue=True)
                attempt += 1
            if outcome.status in PARKED:
                raise self._unanswered(self._questions.awaited)
            if not outcome.must_continue:
                return self._result(outcome)

    def _unanswered(self, waits: Sequence[WaitRecord]) -> UnansweredQuestion:
        asked = [wait for wait in waits if wait.is_human]
        if asked:
            return self._script.unanswered(asked)
        return UnansweredQuestion("; ".join(map(missing_arrival, waits)))

    async def _attempt(self, attempt: int) -> Outcome:
        job = self._job
        run = Run(
            run_id=job.run_id,
            flow_name=job.flow_name,
            params=msgspec.json.encode(job.params),
            workflow_yaml=None if job.workflow_yaml is None else job.workflow_yaml.encode(),
            attempt=attempt,
            journal=list(self._journal),
            waits=self._questions.encoded(),
        )
        # A folder for each attempt, as on a worker: after an answer only artifacts are there again.
        folder = f"{self._folder}/{attempt}"
        os.makedirs(folder, exist_ok=True)
        for name, content in self._artifacts.items():
            with new_artifact(folder, name) as restored:
                restored.write(content)
        with chdir(folder):
            outcome = await self._executor.execute(run, self)
        for file in scan(folder).files:
            self._artifacts[file.name] = Path(folder, ARTIFACTS, file.path).read_bytes()  # noqa: ASYNC240
        return outcome

    def _output(self, task: str, record: Mapping[str, Any]) -> Any:
        """As a client reads it: JSON, or bytes as they are."""
        is_bytes = record.get("output_type") == BYTES
        large = self._large.get(task)
        if large is not None:
            return bytes(large) if is_bytes else msgspec.json.decode(large)
        return b64decode(record["output"]) if is_bytes else record["output"]

    def _result(self, outcome: Outcome) -> FlowResult:
        snapshot = terminal_snapshot(pending_snapshot(self._job), outcome)
        records = {
            name: msgspec.json.decode(record) for name, record in (snapshot.task_records or {}).items()
        }
        returned = {
            name: self._output(name, each) for name, each in records.items() if each["state"] == "SUCCEEDED"
        }
        return FlowResult(
            status=str(snapshot.status),
            result=_result(snapshot, returned),
            outputs=returned,
            tasks={name: str(state) for name, state in snapshot.tasks.items()},
            task_records=records,
            asked=self._script.asked,
            log=self._log,
            slept=self._arrivals.slept,
            artifacts=self._artifacts,
            reason=snapshot.reason,
            error=snapshot.error,
            traceback=outcome.exc_traceback,
        )


def _result(snapshot: RunSnapshot, returned: Mapping[str, Any]) -> Any:
    try:
        return returned.get(result_of(snapshot).task)
    except ResultNotFound:
        return None


def _on_own_loop(work: Coroutine[None, None, T]) -> T:
    """On a thread of its own: the test may run on an event loop itself.

    A task past its time limit is not waited for, as `asyncio.run` would.
    """
    loop = asyncio.new_event_loop()
    try:
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(loop.run_until_complete, work).result()
    finally:
        loop.close()
