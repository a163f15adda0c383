"""The state of a request's latest run, as it is written to the header of its file and to stage.json.

The flow writes this while it runs. A gateway writes it again when it starts and when a run ends, since a run
that was killed could not. The state of the run decides; the stage adds what only the flow knows.
"""

import re
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from pyoco_server.agent.agent_errors import AgentCode, AgentError
from pyoco_server.agent.agent_settings import AgentSettings
from pyoco_server.agent.request_file import RequestFile, RequestStatus
from pyoco_server.agent.run_files import RunFiles, Stage
from pyoco_server.records.runs.run_models import RunStatus

# Before the code, in the error of a run that failed before the flow could write its reason.
_OF_A_TASK: Final = re.compile(r"^task \w+: AgentError: (?=[A-Z_]+: )")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRunFacts:
    """What the gateway knows of a run of the flow `agent_request`."""

    status: RunStatus
    # Of a failed run.
    error: str | None = None
    # The message of its open question.
    question: str | None = None
    # Of a cancelled run: whether its worktree has no uncommitted work (worktrees.is_saved); None: not known.
    work_saved: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderStatus:
    """The request as the state of its latest run makes it."""

    status: RequestStatus
    blocked_reason: str | None = None
    failure_reason: str | None = None

    def fields(self, stage: Stage | None, run_number: str) -> dict[str, Any]:
        """The header. A phase, a link and a commit of an earlier run stay until there is a new one."""
        found: dict[str, Any] = {
            "status": self.status,
            "run_id": run_number,
            "blocked_reason": self.blocked_reason,
            "failure_reason": self.failure_reason,
        }
        if stage is not None:
            found |= {"phase": stage.phase, "attempt": stage.attempt}
            known = {"pr_url": stage.pr_url, "last_commit": stage.last_commit}
            found |= {name: value for name, value in known.items() if value}
        return found


def header_status_of(facts: AgentRunFacts, stage: Stage | None) -> HeaderStatus:
    """The status of a request whose latest run has this state."""
    match facts.status:
        case RunStatus.PENDING | RunStatus.SCHEDULED:
            return HeaderStatus(status=RequestStatus.QUEUED)
        case RunStatus.WAITING_HUMAN:
            asked = (stage.blocked_reason if stage else None) or facts.question or "A question is open."
            return HeaderStatus(status=RequestStatus.NEEDS_INPUT, blocked_reason=asked)
        case RunStatus.COMPLETED | RunStatus.FAILED:
            return _ended(facts, stage)
        case RunStatus.CANCELLED:
            return _stopped(facts, stage)
    return HeaderStatus(status=RequestStatus.RUNNING)


def _ended(facts: AgentRunFacts, stage: Stage | None) -> HeaderStatus:
    if facts.status == RunStatus.FAILED:
        said = _OF_A_TASK.sub("", facts.error or "")
        return _failed((stage.failure_reason if stage else None) or said or "the run has failed")
    if stage is None or not stage.pr_url:
        return _failed(f"{AgentCode.PUSH_FAILED}: the run has ended without a link for a pull request")
    return HeaderStatus(status=RequestStatus.DONE)


def _stopped(facts: AgentRunFacts, stage: Stage | None) -> HeaderStatus:
    """Queued again only if nothing can be lost; a run that never started has changed nothing."""
    saved = facts.work_saved if facts.work_saved is not None else stage is None or stage.work_saved
    if saved:
        return HeaderStatus(status=RequestStatus.QUEUED)
    where = "its worktree" if stage is None else f"the worktree of {stage.branch}"
    return _failed(
        f"{AgentCode.WORK_NOT_SAVED}: stopped before its work was saved; it lies in {where}, "
        "and the next run saves it first"
    )


def _failed(why: str) -> HeaderStatus:
    return HeaderStatus(status=RequestStatus.FAILED, failure_reason=why)


def write_run_state(
    settings: AgentSettings, request_id: str, run_number: str, facts: AgentRunFacts, now: datetime
) -> RequestFile:
    """Write the state of the latest run to the request file and to stage.json.

    A file that already says so is not written; nor is one that names a later run. While a run works, its flow
    writes: what was known before it began does not overwrite that. AgentError REQUEST_NOT_FOUND, and
    REQUEST_UNREADABLE if a person has broken the header.
    """
    has_ended = facts.status.terminal
    files = RunFiles(settings.paths, request_id, run_number)
    stage = files.stage()
    header_status = header_status_of(facts, stage)
    if stage is not None and (has_ended or stage.status != RequestStatus.RUNNING):
        _write_stage(files, stage, header_status, now, has_ended=has_ended)

    def change(file: RequestFile) -> RequestFile:
        if file.is_of_later_run(run_number) or (not has_ended and _is_at_work(files, file)):
            return file
        return file.changed(header_status.fields(stage, run_number))

    return settings.paths.requests.change(request_id, change, now)


def _is_at_work(files: RunFiles, file: RequestFile) -> bool:
    """Whether stage.json, which the flow writes first, and the file both say that this run works."""
    stage = files.stage()
    said = {file.status, RequestStatus.RUNNING if stage is None else stage.status}
    return file.run_number == files.run_number and said == {RequestStatus.RUNNING}


def _write_stage(
    files: RunFiles, stage: Stage, header_status: HeaderStatus, now: datetime, *, has_ended: bool
) -> None:
    at = now.isoformat(timespec="seconds")
    changed = replace(
        stage,
        status=header_status.status,
        blocked_reason=header_status.blocked_reason,
        failure_reason=header_status.failure_reason,
        ended_at=stage.ended_at or (at if has_ended else None),
    )
    if changed == stage:
        return
    changed.updated_at = at
    files.write_stage(changed)
    if stage.status == RequestStatus.NEEDS_INPUT and header_status.blocked_reason is None:
        # Of a question that is not open any more.
        files.clear_error()
    if header_status.failure_reason and files.errors() is None:
        files.write_error(_error_of(header_status.failure_reason))


def _error_of(reason: str) -> AgentError:
    code, _, text = reason.partition(": ")
    if text and code in list(AgentCode):
        return AgentError(AgentCode(code), text)
    return AgentError(AgentCode.INTERNAL_ERROR, reason)
