"""The repository that a gateway serves: its settings, its tag, and its request files as last read."""

import os
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final

from pyoco_server.agent.agent_errors import AgentCode, AgentError
from pyoco_server.agent.agent_settings import AgentSettings, load_settings
from pyoco_server.agent.doctor import Check, run_doctor
from pyoco_server.agent.git.git_command import Git, GitFailed, Interrupted
from pyoco_server.agent.git.repository import check_repository, origin_url
from pyoco_server.agent.git.worktrees import is_saved
from pyoco_server.agent.repo_tag import repo_tag
from pyoco_server.agent.request_file import RequestFile
from pyoco_server.agent.request_ids import MAX_SEQUENCE, run_number_text
from pyoco_server.agent.run_files import RunFiles, run_numbers
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.value_types import Tag

# A person waits for it.
_PREFLIGHT_SEC: Final = 20.0

# The time of the last change, the size and the inode: a file that is replaced has another one.
_Signature = tuple[int, int, int]


class RepositoryFiles:
    """Request files and folders of runs. Call its methods in a thread where many files are read."""

    def __init__(self, settings: AgentSettings, tag: Tag, *, clock: Callable[[], float]) -> None:
        self.settings = settings
        self.tag = tag
        self.folder = settings.paths.requests
        self._clock = clock
        self._read: dict[str, tuple[_Signature, RequestFile]] = {}

    def now(self) -> datetime:
        """The time in the zone of the settings."""
        return self.at(self._clock())

    def at(self, unix_sec: float) -> datetime:
        return datetime.fromtimestamp(unix_sec, self.settings.time_zone)

    def iso(self, unix_sec: float | None) -> str | None:
        return None if unix_sec is None else self.at(unix_sec).isoformat(timespec="seconds")

    def shown_time(self, file: RequestFile, key: str) -> str:
        """A time of the header; of one that is missing or no time, the time of the file."""
        zone = self.settings.time_zone
        try:
            at = datetime.fromisoformat(file.text(key) or "")
            at = at.replace(tzinfo=zone) if at.tzinfo is None else at.astimezone(zone)
        except (ValueError, OverflowError):
            at = self.at(self._changed_at(file.request_id))
        return at.isoformat(timespec="seconds")

    def _changed_at(self, request_id: str) -> float:
        """Of the file; of one that was removed meanwhile, now."""
        try:
            return self._signature(request_id)[0] / 1e9
        except OSError:
            return self._clock()

    def files(self) -> dict[str, RequestFile]:
        """Every request by its id. Only files that have changed since are read again."""
        found: dict[str, RequestFile] = {}
        for request_id in self.folder.ids():
            try:
                found[request_id] = self.file(request_id)
            except AgentError:
                # Removed meanwhile, or too large; a request for it by its id says which.
                continue
        # Another thread may have replaced it meanwhile, with one that lacks a new file.
        known = self._read
        self._read = {name: known[name] for name in found if name in known}
        return found

    def file(self, request_id: str) -> RequestFile:
        """AgentError REQUEST_NOT_FOUND if there is none, INVALID_REQUEST if it is not an id."""
        known = self._read.get(request_id)
        try:
            signature = self._signature(request_id)
        except OSError:
            return self.folder.read(request_id)
        if known is not None and known[0] == signature:
            return known[1]
        file = self.folder.read(request_id)
        self._read[request_id] = (signature, file)
        return file

    def run(self, request_id: str, number: int) -> RunFiles:
        return RunFiles(self.settings.paths, request_id, run_number_text(number))

    def run_dir(self, request_id: str, run_id: str) -> str:
        """Relative to the repository."""
        return RunFiles(self.settings.paths, request_id, run_id).relative_path()

    def run_numbers(self, request_id: str) -> list[int]:
        """Of the runs that have a folder, oldest first."""
        return [int(name) for name in run_numbers(self.settings.paths, request_id)]

    def last_run_number(self, file: RequestFile) -> int:
        """The highest one that has a folder, or that the file names; 0 if there is none.

        The file is part of the repository, and the folders are not: in another clone only the file knows of
        earlier runs, whose commits name them.
        """
        known = [*self.run_numbers(file.request_id), int(file.run_number or 0)]
        return max((number for number in known if number <= MAX_SEQUENCE), default=0)

    def check_preflight(self, file: RequestFile) -> None:
        """AgentError if a run could not start: of folders, work tree, remote, base or branch."""
        self.settings.paths.check_writable()
        deadline = time.monotonic() + _PREFLIGHT_SEC
        try:
            check_repository(
                self.settings,
                self.settings.base_of(file),
                self.settings.branch_of(file),
                is_cancelled=lambda: time.monotonic() > deadline,
            )
        except GitFailed as error:
            raise AgentError(
                AgentCode.COMMAND_FAILED, str(error), hint=f"Try: git -C {self.settings.repo} status"
            ) from error
        except Interrupted:
            remote = self.settings.remote
            raise AgentError(
                AgentCode.REMOTE_ORIGIN_MISSING,
                f"{remote} did not answer within {_PREFLIGHT_SEC:g} s.",
                hint=f"Try: git -C {self.settings.repo} ls-remote {remote}",
            ) from None

    def is_work_saved(self, request_id: str, branch: str) -> bool:
        """Whether the worktree of a stopped run has no uncommitted work."""
        return is_saved(self.settings, request_id, branch)

    def doctor(self) -> list[Check]:
        return run_doctor(self.settings)

    def _signature(self, request_id: str) -> _Signature:
        status = os.stat(self.folder.file_of(request_id), follow_symlinks=False)
        return status.st_mtime_ns, status.st_size, status.st_ino


def repository_of(config: NatsBackendConfig, *, clock: Callable[[], float]) -> RepositoryFiles | None:
    """The repository of PYOCO_AGENT_REPO; None if it is not set. ConfigError if it cannot be used."""
    if not config.agent_repo:
        return None
    settings = load_settings(Path(config.agent_repo))
    return RepositoryFiles(settings, config.agent_tag or tag_of(settings), clock=clock)


def tag_of(settings: AgentSettings) -> Tag:
    """The tag of the repository's worker; a repository may get its remote later, under another tag."""
    try:
        url = origin_url(Git(settings.repo), settings.remote)
    except AgentError:
        url = None
    return repo_tag(settings.repo, url)
