"""The folder of one run of a request, `runs/<id>/<run_number>/`: its log, its stage, its plan and its errors.

`runner.log` has everything that the run said; `stage.json` is its state as of the last change. They are never
overwritten by another run.
"""

import json
import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any, Final, get_type_hints

import msgspec

from pyoco_server.agent.agent_errors import AgentCode, AgentError
from pyoco_server.agent.atomic_files import checked_folder, write_atomically, writing
from pyoco_server.agent.repo_paths import RepoPaths, ignore_all
from pyoco_server.agent.request_file import RequestStatus
from pyoco_server.agent.request_ids import checked_request_id, is_run_number
from pyoco_server.errors import shortened

RUNNER_LOG: Final = "runner.log"
UNIT_LOG: Final = "unit.log"
E2E_LOG: Final = "e2e.log"
_STAGE: Final = "stage.json"
_PLAN: Final = "plan.json"
_ERRORS: Final = "errors.json"
_DIFF_CHARS: Final = 500_000
_ARTIFACT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(slots=True, kw_only=True)
class StepState:
    """One step of the plan, as far as the run has come."""

    id: str
    title: str
    # waiting, running, done, failed
    state: str = "waiting"
    commit: str | None = None
    # passed, failed; None if no test is configured, or none ran yet.
    tests: str | None = None
    summary: str | None = None


@dataclass(slots=True, kw_only=True)
class Stage:
    """stage.json. Times are ISO 8601 in the zone of the settings."""

    request_id: str
    run_id: str
    status: str = RequestStatus.RUNNING
    phase: str = "planning"
    # The task of the flow that works, or has worked last.
    task: str = ""
    # The id of the step that is executed, such as S01.
    step: str | None = None
    # Counts the automatic retries within this run; 1 at its start.
    attempt: int = 1
    base_branch: str = ""
    branch: str = ""
    started_at: str = ""
    updated_at: str = ""
    ended_at: str | None = None
    # The id of the run of the flow, for /runs/{run_id}.
    pyoco_run_id: str | None = None
    blocked_reason: str | None = None
    failure_reason: str | None = None
    pr_url: str | None = None
    last_commit: str | None = None
    summary: str | None = None
    # After a stop: whether everything is on the branch. None while it runs.
    work_saved: bool | None = None
    steps: list[StepState] = field(default_factory=list)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> "Stage":
        """What is known of it; keys of another version, and values of another type, are ignored."""
        listed = found.get("steps")
        steps = [
            StepState(**_usable(step, StepState))
            for step in (listed if isinstance(listed, list) else [])
            if isinstance(step, dict)
            and isinstance(step.get("id"), str)
            and isinstance(step.get("title"), str)
        ]
        return cls(**{**_usable(found, cls), "steps": steps})


def _usable(found: Mapping[str, Any], kind: type) -> dict[str, Any]:
    """The values that are fields of this dataclass, and of their type."""
    types = _types_of(kind)
    return {key: value for key, value in found.items() if key in types and _has_type(value, types[key])}


@cache
def _types_of(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _has_type(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


class RunFiles:
    """The files of one run. Reading never fails for a file that is missing or broken: it is None then."""

    def __init__(self, paths: RepoPaths, request_id: str, run_number: str) -> None:
        if not is_run_number(run_number):
            raise AgentError(
                AgentCode.RUN_NOT_FOUND, f"run_id={shortened(run_number)} is not an id of a run."
            )
        self.request_id = checked_request_id(request_id)
        self.run_number = run_number
        self._repo = paths.repo
        self._parent = paths.runs / self.request_id
        self.path = self._parent / run_number

    def create(self) -> None:
        """Create the folder, if it is not there yet."""
        checked_folder(self._repo, self.path)
        ignore_all(self._parent)

    def relative_path(self, name: str | None = None) -> str:
        path = self.path if name is None else self.path / name
        return path.relative_to(self._repo).as_posix()

    # Written by the flow

    def write_stage(self, stage: Stage) -> None:
        self._write_json(_STAGE, asdict(stage))

    def write_plan(self, plan: Mapping[str, Any]) -> None:
        self._write_json(_PLAN, plan)

    def write_error(self, error: AgentError) -> None:
        self._write_json(_ERRORS, error.as_json())

    def clear_error(self) -> None:
        """Of a question that was answered."""
        path = self.path / _ERRORS
        with writing(path):
            path.unlink(missing_ok=True)

    def write_artifacts(self, artifacts: Mapping[str, Any]) -> None:
        """Commits and statistics of the difference."""
        self._write_json("artifacts.json", artifacts)

    def write_diff(self, step: str, text: str) -> None:
        """The change of one step; the rest of a long one is in the commit."""
        if len(text) > _DIFF_CHARS:
            text = f"{text[:_DIFF_CHARS]}\n... (git show has the rest)\n"
        write_atomically(self.path / f"{step}.diff", text)

    def _write_json(self, name: str, value: Mapping[str, Any]) -> None:
        write_atomically(self.path / name, json.dumps(value, ensure_ascii=False, indent=2) + "\n")

    # Read by everybody

    def stage(self) -> Stage | None:
        found = self._json(_STAGE)
        if not isinstance(found, dict):
            return None
        try:
            return Stage.from_json(found)
        except TypeError:
            return None

    def plan(self) -> Any:
        return self._json(_PLAN)

    def errors(self) -> Any:
        return self._json(_ERRORS)

    def _is_inside(self) -> bool:
        """A repository may contain a link in place of the folder: it would show files from elsewhere."""
        return self.path.resolve().is_relative_to(self._repo.resolve())

    def _json(self, name: str) -> Any:
        if not self._is_inside():
            return None
        try:
            return json.loads((self.path / name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def artifact_names(self) -> list[str]:
        if not self._is_inside():
            return []
        with suppress(OSError), os.scandir(self.path) as entries:
            return sorted(
                entry.name
                for entry in entries
                if entry.is_file(follow_symlinks=False) and _ARTIFACT.fullmatch(entry.name)
            )
        return []

    def open_artifact(self, name: str) -> int:
        """A descriptor for reading; AgentError ARTIFACT_NOT_FOUND. The caller closes it."""
        if _ARTIFACT.fullmatch(name) and self._is_inside():
            with suppress(OSError):
                flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
                descriptor = os.open(self.path / name, flags)
                if stat.S_ISREG(os.fstat(descriptor).st_mode):
                    return descriptor
                os.close(descriptor)
        raise AgentError(
            AgentCode.ARTIFACT_NOT_FOUND,
            f"The run {self.run_number} of {self.request_id} has no file {shortened(name)}.",
            hint=f"It has: {', '.join(self.artifact_names()) or 'no files'}.",
        )


def run_numbers(paths: RepoPaths, request_id: str) -> list[str]:
    """The runs of a request that have a folder, oldest first."""
    folder = paths.runs / checked_request_id(request_id)
    try:
        with os.scandir(folder) as entries:
            found = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return sorted((name for name in found if is_run_number(name)), key=int)
