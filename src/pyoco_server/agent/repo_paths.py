"""Where everything of an agent's repository is: requests, runs, worktrees and locks."""

import errno
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyoco_server.agent.atomic_files import checked_folder, not_writable, writing
from pyoco_server.agent.request_folder import RequestFolder
from pyoco_server.agent.request_ids import checked_request_id

# Git-ignored: worktrees, locks, and what the agent knows of its repository.
STATE_FOLDER: Final = ".aiflow"


@dataclass(frozen=True, slots=True)
class RepoPaths:
    repo: Path
    requests_dir: str = "requests"
    runs_dir: str = "runs"

    @property
    def requests(self) -> RequestFolder:
        return RequestFolder(self.repo, self.requests_dir, self.requests_lock)

    @property
    def runs(self) -> Path:
        return self.repo / self.runs_dir

    @property
    def state(self) -> Path:
        return self.repo / STATE_FOLDER

    @property
    def requests_lock(self) -> Path:
        """Held for the time of one change of a request file."""
        return self.state / "locks" / "requests.lock"

    @property
    def repo_lock(self) -> Path:
        """Held by the executor that works in this repository."""
        return self.state / "locks" / "repo.lock"

    def cli_lock(self, request_id: str) -> Path:
        """Inherited by the coding CLI of a request: while it is held, a CLI may edit the worktree."""
        return self.state / "locks" / f"cli-{checked_request_id(request_id)}.lock"

    def worktree(self, request_id: str) -> Path:
        return self.state / "worktrees" / checked_request_id(request_id)

    @property
    def excluded(self) -> tuple[str, ...]:
        """Folders that never enter a commit of a step, nor count as changes of a person."""
        return (self.requests_dir, self.runs_dir, STATE_FOLDER)

    def prepare(self) -> None:
        """Create the folders; AgentError if one of them leads out of the repository."""
        for folder in (
            self.repo / self.requests_dir,
            self.runs,
            self.state / "locks",
            self.state / "worktrees",
        ):
            checked_folder(self.repo, folder)
        ignore_all(self.state)

    def check_writable(self) -> None:
        """AgentError FILE_NOT_WRITABLE for a folder, or for the repository where a folder is missing."""
        for folder in (self.repo / self.requests_dir, self.runs, self.state):
            existing = folder if folder.exists() else self.repo
            if not os.access(existing, os.W_OK | os.X_OK):
                raise not_writable(existing, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))


def ignore_all(folder: Path) -> None:
    """Hide the folder from git, without a change of the person's .gitignore."""
    path = folder / ".gitignore"
    with writing(path), suppress(FileExistsError), open(path, "x", encoding="utf-8") as file:
        file.write("*\n")
