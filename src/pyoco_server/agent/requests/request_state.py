"""The state of a request: its file, its stored record and its latest run, and the status that follows."""

from dataclasses import dataclass
from typing import Final

from msgspec import UNSET

from pyoco_server.agent.flow.work_session import PHASES
from pyoco_server.agent.header_status import AgentRunFacts, HeaderStatus, header_status_of
from pyoco_server.agent.request_file import RequestFile, RequestStatus
from pyoco_server.agent.run_files import Stage
from pyoco_server.records.agent.request_models import RequestRecord, RequestRun
from pyoco_server.records.runs.run_models import OpenWait, RunSnapshot, RunStatus, WaitKind

REMOVED: Final = "its run was deleted before it had ended"
# Shown in a file by a run that this server does not know.
_OPEN: Final = frozenset({RequestStatus.RUNNING, RequestStatus.NEEDS_INPUT})
# How a run can have ended. `stage.json` may say anything: programs of the repository can write to it.
_ENDS: Final = (RequestStatus.QUEUED, RequestStatus.FAILED, RequestStatus.DONE)
_END_OF: Final[dict[str, RequestStatus]] = {status.value: status for status in _ENDS}


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestState:
    file: RequestFile
    # None: nothing was ever asked of it here.
    record: RequestRecord | None = None
    # The latest run; None if it is not stored (yet, or any more), or if its outcome is known.
    run: RunSnapshot | None = None
    # Of the latest run.
    stage: Stage | None = None
    header_status: HeaderStatus

    @property
    def status(self) -> RequestStatus:
        return self.header_status.status

    @property
    def latest(self) -> RequestRun | None:
        return None if self.record is None else self.record.latest

    @property
    def is_open(self) -> bool:
        """Whether it has a run that has not ended."""
        return self.run is not None and not self.run.status.terminal

    @property
    def has_unrecorded_end(self) -> bool:
        """Whether its run has ended, and its record and perhaps its files do not say so yet."""
        latest = self.latest
        if latest is None or latest.outcome is not None:
            return False
        return latest.stored if self.run is None else self.run.status.terminal

    @property
    def is_stopping(self) -> bool:
        latest = self.latest
        return self.is_open and latest is not None and latest.stop is not None

    @property
    def question(self) -> OpenWait | None:
        return None if self.run is None else open_question(self.run)


def state_of(
    file: RequestFile,
    record: RequestRecord | None,
    run: RunSnapshot | None = None,
    stage: Stage | None = None,
    *,
    work_saved: bool | None = None,
) -> RequestState:
    """`work_saved`: of a cancelled run, whether its worktree has no uncommitted work."""
    return RequestState(
        file=file,
        record=record,
        run=run,
        stage=stage,
        header_status=_header_status(file, record, run, stage, work_saved),
    )


def _header_status(
    file: RequestFile,
    record: RequestRecord | None,
    run: RunSnapshot | None,
    stage: Stage | None,
    work_saved: bool | None,
) -> HeaderStatus:
    latest = None if record is None else record.latest
    if record is not None and record.is_queued:
        return HeaderStatus(status=RequestStatus.QUEUED)
    if latest is None:
        return _of_file(file)
    if latest.outcome is not None:
        # A later version may know other outcomes.
        status = _END_OF.get(latest.outcome, RequestStatus.FAILED)
        reason = file.text("failure_reason") if status == RequestStatus.FAILED else None
        return HeaderStatus(status=status, failure_reason=reason)
    if run is None:
        if latest.stored:
            return end_of_removed(stage) or HeaderStatus(status=RequestStatus.FAILED, failure_reason=REMOVED)
        return HeaderStatus(status=RequestStatus.QUEUED)
    return header_status_of(facts_of(run, work_saved=work_saved), stage)


def _of_file(file: RequestFile) -> HeaderStatus:
    """Of a request that was never executed here: the file may come from another machine."""
    if file.status in _OPEN:
        return HeaderStatus(
            status=RequestStatus.FAILED,
            failure_reason=f"the file says {file.status}, and this server knows no run of it; run it again",
        )
    reason = file.text("failure_reason") if file.status == RequestStatus.FAILED else None
    return HeaderStatus(status=file.status, failure_reason=reason)


def end_of_removed(stage: Stage | None) -> HeaderStatus | None:
    """How a run ended that was removed since, such as by retention; None if it had not ended."""
    if stage is None or stage.ended_at is None or stage.status not in _ENDS:
        return None
    return HeaderStatus(status=RequestStatus(stage.status), failure_reason=stage.failure_reason)


def facts_of(run: RunSnapshot, *, work_saved: bool | None = None) -> AgentRunFacts:
    question = open_question(run)
    return AgentRunFacts(
        status=run.status,
        error=run.error,
        question=None if question is None else question.message,
        work_saved=work_saved,
    )


def open_question(run: RunSnapshot) -> OpenWait | None:
    """What the run asks a person; None if it is not parked for that."""
    if run.status is not RunStatus.WAITING_HUMAN or run.open_waits is UNSET:
        return None
    return next((wait for wait in run.open_waits if wait.kind is WaitKind.HUMAN), None)


def is_active(run: RunSnapshot) -> bool:
    """Whether it has, or waits for, the worker: a run that asks a person leaves it to the next request."""
    return not run.status.terminal and run.status is not RunStatus.WAITING_HUMAN


def phase_of_task(task: str | None) -> str | None:
    return None if task is None else PHASES.get(task)
