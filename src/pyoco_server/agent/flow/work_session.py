"""One task of the flow at work in its repository: its settings, its files, its lock, and how it ends.

The repository is that of the worker (AIFLOW_REPO), never one that the parameters of a run name: whoever may
submit a run must not choose whose configuration is executed.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from pyoco_server.agent.agent_errors import AgentCode, AgentError
from pyoco_server.agent.agent_settings import AgentSettings, load_settings
from pyoco_server.agent.coding_cli.cli_lock import take_over
from pyoco_server.agent.file_lock import FileLock
from pyoco_server.agent.flow.report_parts import NOTES, flat, with_line
from pyoco_server.agent.flow.run_log import RunLog
from pyoco_server.agent.git.git_command import GitFailed, Interrupted
from pyoco_server.agent.git.worktrees import Worktree, wip_subject, wip_trailer
from pyoco_server.agent.header_status import HeaderStatus
from pyoco_server.agent.request_file import RequestFile, RequestStatus
from pyoco_server.agent.request_ids import checked_request_id, is_run_number
from pyoco_server.agent.run_files import RUNNER_LOG, RunFiles, Stage, StepState
from pyoco_server.errors import shortened
from pyoco_server.records.runs.causes import CauseKind

REPO_VARIABLE: Final = "AIFLOW_REPO"
FLOW_NAME: Final = "agent_request"
# The phase of each task of the flow.
PHASES: Final = {
    "preflight": "planning",
    "plan": "planning",
    "implement": "implementing",
    "test": "testing",
    "document": "documenting",
    "push": "pushing",
    "report": "reporting",
}
_LOCK_SEC: Final = 60.0


def run_params(request_id: str, run_number: str, repo: Path) -> dict[str, str]:
    """The parameters of a run of the flow `agent_request`."""
    return {"request_id": request_id, "request_run": run_number, "repo": str(repo.resolve())}


@dataclass(frozen=True, slots=True)
class RequestParams:
    """The parameters of a run of the flow, checked, with the settings of the repository."""

    settings: AgentSettings
    request_id: str
    run_number: str

    @classmethod
    def of(cls, params: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> "RequestParams":
        own = environ.get(REPO_VARIABLE)
        if not own:
            raise AgentError(
                AgentCode.INVALID_REQUEST,
                "This worker has no repository.",
                hint="Start it with: pyoco-server agent --repo DIR",
            )
        repo, named = Path(own).resolve(), params.get("repo")
        if named is not None and named != str(repo):
            raise AgentError(
                AgentCode.INVALID_REQUEST,
                f"repo={shortened(named)} is not the repository of this worker.",
                hint=f"Submit the run with the tag of that repository; this worker has {repo}.",
            )
        run_number = params.get("request_run")
        if not is_run_number(run_number):
            raise AgentError(
                AgentCode.INVALID_REQUEST,
                f"request_run={shortened(run_number)} is not an id of a run.",
                hint="Use three digits, such as '001'.",
            )
        return cls(
            load_settings(repo, environ=environ),
            checked_request_id(params.get("request_id")),
            str(run_number),
        )


class WorkSession:
    """The state of a run as its tasks see and change it; whoever has one holds the lock of the repository."""

    def __init__(self, params: RequestParams, log: RunLog, is_cancelled: Callable[[], bool]) -> None:
        self.settings = params.settings
        self.request_id = params.request_id
        self.run_number = params.run_number
        self.paths = params.settings.paths
        self.requests = self.paths.requests
        self.files = RunFiles(self.paths, params.request_id, params.run_number)
        self.log = log
        self.is_cancelled = is_cancelled
        self.stage = self.files.stage() or Stage(request_id=params.request_id, run_id=params.run_number)

    @property
    def worktree(self) -> Worktree:
        return Worktree(self.settings, self.request_id, self.stage.branch, self.is_cancelled)

    @property
    def request(self) -> RequestFile:
        """The file as it is now: a person may have changed it."""
        return self.requests.read(self.request_id)

    def now(self) -> datetime:
        return datetime.now(self.settings.time_zone)

    def check_stop(self) -> None:
        if self.is_cancelled():
            raise Interrupted

    # The state, in stage.json and in the header of the request

    def begin(self, task: str, pyoco_run_id: str) -> None:
        self.check_is_latest()
        phase = PHASES[task]
        is_new = not self.stage.started_at
        if is_new:
            self.stage.started_at = self._time()
            self.log.say("RUN", f"started run_id={self.run_number}")
        elif self.stage.task == task:
            self.log.say("RUN", f"resumed run_id={self.run_number}")
        if is_new or self.stage.phase != phase:
            self.log.say("PHASE", phase)
        self.stage.task, self.stage.phase, self.stage.pyoco_run_id = task, phase, pyoco_run_id
        self.stage.work_saved = self.stage.ended_at = None
        self.write_status(RequestStatus.RUNNING)

    def check_is_latest(self) -> None:
        """A run that was submitted again must not continue beside a later one of its request."""
        request = self.request
        if request.is_of_later_run(self.run_number):
            latest = request.run_number
            raise AgentError(
                AgentCode.INVALID_REQUEST,
                f"Run {self.run_number} of {self.request_id} is not its latest run, which is {latest}.",
                hint=f"pyoco-client requests rerun {self.request_id}",
            )

    def write_status(
        self, status: RequestStatus, *, blocked: str | None = None, failed: str | None = None
    ) -> None:
        """Write the state; a broken header is reported, and left to its author."""
        stage = self.stage
        stage.status, stage.blocked_reason, stage.failure_reason = status, blocked, failed
        # Queued again: the run was stopped.
        if status in {RequestStatus.FAILED, RequestStatus.DONE, RequestStatus.QUEUED}:
            stage.ended_at = self._time()
        if blocked is None and failed is None:
            self.files.clear_error()
        self.save_stage()
        fields = HeaderStatus(status=status, blocked_reason=blocked, failure_reason=failed).fields(
            stage, self.run_number
        )
        self.edit_request(lambda file: file.changed(fields))

    def save_stage(self) -> None:
        self.stage.updated_at = self._time()
        self.files.write_stage(self.stage)

    def edit_request(self, change: Callable[[RequestFile], RequestFile]) -> None:
        """Write what `change` makes of the file; a failure is logged, and does not end the task."""

        def unless_later(file: RequestFile) -> RequestFile:
            return file if file.is_of_later_run(self.run_number) else change(file)

        try:
            self.requests.change(self.request_id, unless_later, self.now())
        except AgentError as error:
            self.log.say("WARN", f"the request file was not changed: {error}")

    def count_attempt(self) -> None:
        self.stage.attempt += 1
        self.save_stage()

    def set_step(self, step_id: str | None, **changes: Any) -> None:
        """Change the state of a step, which is the current one while it is `running`."""
        for step in self.stage.steps:
            if step.id == step_id:
                for name, value in changes.items():
                    setattr(step, name, value)
        self.stage.step = step_id if changes.get("state") == "running" else None
        self.save_stage()

    def step_state(self, step_id: str) -> StepState | None:
        return next((step for step in self.stage.steps if step.id == step_id), None)

    def _time(self) -> str:
        return self.now().isoformat(timespec="seconds")

    # How it ends

    def fail(self, error: AgentError) -> None:
        self.log.say("FAILED", flat(str(error)))
        self.files.write_error(error)
        if self.stage.step is not None:
            self.set_step(self.stage.step, state="failed")
        reason = flat(f"{error.code}: {error.message}")
        line = f"- Failed while {self.stage.phase}: {reason}"
        self.edit_request(
            lambda file: file.changed(report=with_line(file.report or "", self.run_number, NOTES, line))
        )
        self.write_status(RequestStatus.FAILED, failed=reason)

    def stop(self) -> None:
        """Save uncommitted work on the branch: only then is the request queued again."""
        self.log.say("RUN", "stopping")
        worktree = self.worktree
        try:
            commit = None
            if self.stage.branch and worktree.was_created():
                worktree.open()
                commit = worktree.save(
                    wip_subject(self.request_id, self.stage.step), wip_trailer(self.run_number, self.now())
                )
        except (AgentError, GitFailed, OSError) as error:
            self.stage.work_saved = False
            self._log_difference(worktree)
            self.fail(
                AgentError(
                    AgentCode.WORK_NOT_SAVED,
                    f"Stopped, and the work could not be saved; it lies in {worktree.path}: {error}",
                    hint=f"Look at it: git -C {worktree.path} status",
                )
            )
            return
        if commit is not None:
            self.stage.last_commit = commit
            self.log.say("COMMIT", f"{commit[:7]} work in progress")
        self.stage.work_saved = True
        if self.stage.step is not None:
            self.set_step(self.stage.step, state="waiting")
        self.write_status(RequestStatus.QUEUED)
        self.log.say("RUN", "stopped; the work is on the branch")

    def _log_difference(self, worktree: Worktree) -> None:
        """Work that cannot be committed is at least in the log."""
        try:
            difference = worktree.git.run("diff", "--no-ext-diff", "--no-textconv", "HEAD", "--")
        except (GitFailed, OSError) as error:
            self.log.say("WARN", f"its difference cannot be read: {error}")
            return
        for line in difference.splitlines():
            self.log.program_line(line)


@contextmanager
def working(ctx: Any, task: str) -> Iterator[WorkSession]:
    """Hold the repository for one task, and write down how the task ends."""
    params = RequestParams.of(ctx.params)
    _check_cause(ctx.run.cause, ctx.run.cause_id, params.request_id)
    params.settings.paths.prepare()
    # Before the run folder is made: nothing is written for a request that does not exist.
    params.settings.paths.requests.read(params.request_id)
    files = RunFiles(params.settings.paths, params.request_id, params.run_number)
    files.create()

    def is_cancelled() -> bool:
        return bool(ctx.is_cancelled)

    lock = FileLock(params.settings.paths.repo_lock)
    with RunLog(files.path / RUNNER_LOG) as log:
        if not lock.acquire_within(_LOCK_SEC, is_cancelled):
            if is_cancelled():
                raise Interrupted
            raise AgentError(
                AgentCode.LOCK_HELD,
                f"{params.settings.repo} is in use by another process: {lock.holders()}.",
                hint="One run at a time works in a repository; end that process, or wait for it.",
            )
        session = WorkSession(params, log, is_cancelled)
        try:
            _end_orphan(session)
            with _recording_end(session):
                session.check_stop()
                session.begin(task, ctx.run.run_id)
                yield session
                session.check_stop()
        finally:
            lock.release()


def _check_cause(cause: str, cause_id: str | None, request_id: str) -> None:
    """Only the queue of the repository starts a run: it knows whose turn it is, and whose requests these are.

    Whoever may submit runs, of any tenant, could else have one executed under any number.
    """
    if (cause, cause_id) != (CauseKind.REQUEST, request_id):
        raise AgentError(
            AgentCode.INVALID_REQUEST,
            f"A run of {FLOW_NAME} is started by its request, not by itself (its cause is {cause}).",
            hint=f"pyoco-client requests rerun {request_id}",
        )


def _end_orphan(session: WorkSession) -> None:
    """End a CLI that a killed executor has left: it must not edit beside the next one."""
    lock = FileLock(session.paths.cli_lock(session.request_id))
    if ended := take_over(lock):
        session.log.say("RUN", f"ended processes of an earlier attempt: {', '.join(map(str, ended))}")
    lock.release()


@contextmanager
def _recording_end(session: WorkSession) -> Iterator[None]:
    try:
        yield
    except Interrupted:
        session.stop()
        raise
    except AgentError as error:
        session.fail(error)
        raise
    except GitFailed as error:
        failed = AgentError(AgentCode.COMMAND_FAILED, str(error))
        session.fail(failed)
        raise failed from error
    except Exception as error:
        session.fail(AgentError(AgentCode.INTERNAL_ERROR, f"{type(error).__name__}: {error}"))
        raise
