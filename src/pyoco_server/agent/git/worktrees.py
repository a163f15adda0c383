"""The worktree of one request: created once, continued by later runs, never the folder a person works in."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from pyoco_server.agent.agent_errors import AgentCode, AgentError
from pyoco_server.agent.agent_settings import AgentSettings
from pyoco_server.agent.atomic_files import write_atomically
from pyoco_server.agent.git.git_command import Git, GitFailed, check_config
from pyoco_server.agent.git.repository import (
    changed_paths,
    everything_but,
    origin_url,
    remote_failed,
    remote_head,
)
from pyoco_server.agent.request_file import one_line

STEP_TRAILER: Final = "Aiflow-Step"
_ABSOLUTE: Final = ("--path-format=absolute", "--git-common-dir")
_SUBJECT_CHARS: Final = 100
_AUTHOR: Final = ("aiflow", "aiflow@localhost")


class Worktree:
    """Git in `.aiflow/worktrees/<id>`. Whoever uses it holds the lock of the repository."""

    def __init__(
        self,
        settings: AgentSettings,
        request_id: str,
        branch: str,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self._settings = settings
        self.path = settings.paths.worktree(request_id)
        # Written when the worktree is complete: one that was interrupted has every file deleted.
        self._ready = self.path.with_name(f"{request_id}.ready")
        self.request_id = request_id
        self.branch = branch
        self._main = Git(settings.repo, is_cancelled)
        self.git = Git(self.path, is_cancelled, is_top=True)
        self._excluded = settings.paths.excluded

    # Creating and continuing it

    def fetch(self, base: str) -> None:
        """Fetch the base, and the branch if the remote has it."""
        remote = self._settings.remote
        names = [base]
        if remote_head(self._main, remote, self.branch) is not None:
            names.append(self.branch)
        refs = [f"+refs/heads/{name}:refs/remotes/{remote}/{name}" for name in names]
        try:
            self._main.network("fetch", "--no-tags", "--refmap=", "--no-recurse-submodules", remote, *refs)
        except GitFailed as error:
            raise remote_failed(self._main, remote, error, AgentCode.REMOTE_ORIGIN_MISSING) from error

    def was_created(self) -> bool:
        """Whether a run has made it, whatever a CLI has made of it since."""
        return self._ready.is_file() and self.path.exists()

    def is_ready(self) -> bool:
        # A repository may contain links under these names.
        links = self.path.is_symlink() or self._ready.is_symlink()
        return not links and self._ready.is_file() and (self.path / ".git").is_file()

    def open(self) -> None:
        """Make a worktree usable that a killed process may have left locked. AgentError if it is not ours."""
        if not self.is_ready():
            raise AgentError(
                AgentCode.INTERNAL_ERROR,
                f"{self.path} is missing, or is not a worktree any more: its `.git` was removed.",
                hint="Run the request again: it is created from the branch, and what is there is kept.",
            )
        places = self.git.run("rev-parse", *_ABSOLUTE, "--absolute-git-dir", "--show-toplevel")
        common, folder, top = map(Path, places.splitlines())
        own = Path(self._main.line("rev-parse", *_ABSOLUTE))
        if top.resolve() != self.path.resolve() or common.resolve() != own.resolve():
            raise AgentError(
                AgentCode.INTERNAL_ERROR,
                f"{self.path} is not a worktree of {self._settings.repo}.",
                hint=f"Move it away: mv {self.path} {self.path}.old",
            )
        # Its own configuration counts as well (config.worktree).
        check_config(self.git)
        for lock in (
            folder / "index.lock",
            folder / "HEAD.lock",
            common / "refs/heads" / f"{self.branch}.lock",
        ):
            # Nobody else uses this worktree and its branch while the lock of the repository is held.
            with suppress(FileNotFoundError):
                lock.unlink()
        self._stay_on_branch()

    def prepare(self, base: str) -> Path | None:
        """Create the worktree on its branch, or continue it; returns where something in its place is kept."""
        kept = None
        self._main.run("worktree", "prune")
        self._leave_other_branch()
        if self.is_ready():
            self.open()
        else:
            kept = self._set_aside() if self.path.exists() else None
            self._create(base)
        self._catch_up()
        return kept

    def _leave_other_branch(self) -> None:
        """If a person has given the request another branch: what was not committed stays on the old one."""
        if not self.is_ready():
            return
        before = self._ready.read_text(encoding="utf-8").strip()
        if before != self.branch:
            old = Worktree(self._settings, self.request_id, before)
            old.open()
            old.save(wip_subject(self.request_id, None), "Aiflow-Wip: before a change of the branch")
            self._ready.unlink()
            self._main.run("worktree", "remove", "--force", str(self.path))

    def _create(self, base: str) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        remote = self._settings.remote
        local = f"refs/heads/{self.branch}"
        remote_ref = f"refs/remotes/{remote}/{self.branch}"
        if self._main.succeeds("show-ref", "--verify", "--quiet", local):
            args = [str(self.path), self.branch]
        else:
            known = self._main.succeeds("show-ref", "--verify", "--quiet", remote_ref)
            start = remote_ref if known else f"refs/remotes/{remote}/{base}"
            args = ["--no-track", "-b", self.branch, str(self.path), start]
        try:
            self._main.run("worktree", "add", *args)
        except GitFailed as error:
            raise AgentError(
                AgentCode.WORKTREE_DIRTY,
                f"The worktree of {self.branch} cannot be created: {error.stderr}",
                hint=f"If the branch is checked out elsewhere, leave it there: git switch {base}",
            ) from error
        write_atomically(self._ready, f"{self.branch}\n")

    def _set_aside(self) -> Path | None:
        """An incomplete worktree is removed; anything else in its place is kept under another name."""
        if (self.path / ".git").is_file():
            with suppress(GitFailed):
                self._main.run("worktree", "remove", "--force", "--force", str(self.path))
        if not self.path.exists():
            return None
        number = os.stat(self.path).st_ino
        kept = self.path.rename(self.path.with_name(f"{self.request_id}.kept-{number}"))
        self._main.run("worktree", "prune")
        return kept

    def _catch_up(self) -> None:
        """Take over commits that somebody has pushed to the branch; AgentError if both sides have some.

        Uncommitted work that an earlier run has left stays, unless somebody has changed the same files.
        """
        ours = self.head()
        theirs_ref = f"refs/remotes/{self._settings.remote}/{self.branch}"
        if not self.git.succeeds("show-ref", "--verify", "--quiet", theirs_ref):
            return
        theirs = self.git.line("rev-parse", theirs_ref)
        if self.git.succeeds("merge-base", "--is-ancestor", theirs, ours):
            return
        copy, cure = f"{self._settings.remote}/{self.branch}", f"git -C {self.path} merge"
        if not self.git.succeeds("merge-base", "--is-ancestor", ours, theirs):
            raise AgentError(
                AgentCode.PUSH_FAILED,
                f"{self.branch} and its copy on {self._settings.remote} have both changed.",
                hint=f"Merge both: {cure} {copy}",
            )
        try:
            self.git.run("merge", "--ff-only", "--no-verify", theirs)
        except GitFailed as error:
            raise AgentError(
                AgentCode.PUSH_FAILED,
                f"{copy} has newer commits that change files with uncommitted work in {self.path}: "
                f"{error.stderr}",
                hint=f"Commit the work and merge both: git -C {self.path} commit -am wip && {cure} {copy}",
            ) from error

    def _stay_on_branch(self) -> None:
        """A CLI may have switched to another branch: keep what it has there, and return."""
        ref = f"refs/heads/{self.branch}"
        if self.git.succeeds("symbolic-ref", "-q", "HEAD") and self.git.line("symbolic-ref", "HEAD") == ref:
            return
        self._keep("wip: found on another branch")
        self.git.run("checkout", "--force", "--quiet", self.branch, "--")

    def keep_aside(self) -> None:
        """Remove uncommitted changes from the worktree; a commit beside the branch keeps them."""
        if self.is_dirty():
            self._keep("wip: set aside")
            self.git.run("reset", "--hard", "--quiet", "HEAD")

    def _keep(self, subject: str) -> None:
        self._add_all()
        kept = self._commit_tree(self.git.line("write-tree"), [self.head()], subject)
        self.git.run("update-ref", f"refs/aiflow/kept/{self.request_id}/{kept[:12]}", kept)

    # What it contains

    def head(self) -> str:
        return self.git.line("rev-parse", "HEAD")

    def is_dirty(self) -> bool:
        return bool(changed_paths(self.git, self._excluded))

    def commit_of(self, key: str) -> str | None:
        """The commit of a step that has been done, by the key in its trailer."""
        pattern = f"^{STEP_TRAILER}: {key}$"
        out = self.git.run(
            "log", "--format=%H", "--basic-regexp", f"--grep={_escaped(pattern)}", "HEAD", "--"
        )
        return next(iter(out.split()), None)

    def commits_since(self, base: str) -> list[tuple[str, str]]:
        """Commit and subject, oldest first, of what the branch adds to its base."""
        out = self.git.run("log", "--reverse", "--format=%H%x00%s", f"{self._base_ref(base)}..HEAD", "--")
        return [
            (commit, subject) for line in out.splitlines() for commit, _, subject in [line.partition("\0")]
        ]

    def difference(self, base: str) -> list[dict[str, str | int | None]]:
        """Files that differ from the base, with added and removed lines (None: binary)."""
        out = self.git.run(
            "diff", "--numstat", "-z", "--no-renames", "--no-ext-diff", "--no-textconv",
            f"{self._base_ref(base)}...HEAD", "--",
        )  # fmt: skip
        entries = [entry.split("\t", 2) for entry in out.split("\0") if entry.count("\t") >= 2]
        return [
            {"path": path, "added": _count(added), "removed": _count(removed)}
            for added, removed, path in entries
        ]

    def changes_of(self, commit: str) -> str:
        """The difference that a commit makes, as text."""
        return self.git.run("show", "--format=", "--no-color", "--no-ext-diff", "--no-textconv", commit, "--")

    def differs_from(self, commit: str) -> bool:
        """Whether the index, after `stage`, differs from a commit."""
        return not self.git.succeeds(
            "diff", "--cached", "--quiet", "--no-ext-diff", "--no-textconv", commit, "--"
        )

    def last_step_commit(self, base: str) -> str:
        """The commit of the last step; the end of the base if there is none."""
        out = self.git.run(
            "log",
            "-n",
            "1",
            "--format=%H",
            f"--grep=^{STEP_TRAILER}: ",
            f"{self._base_ref(base)}..HEAD",
            "--",
        )
        return out.strip() or self.git.line("merge-base", self._base_ref(base), "HEAD")

    def _base_ref(self, base: str) -> str:
        return f"refs/remotes/{self._settings.remote}/{base}"

    # Committing

    def stage(self) -> None:
        """Put everything into the index, except the excluded folders: a CLI may have added those itself.

        AgentError for a repository in the worktree.
        """
        self._add_all()
        self._unstage(self._excluded)

    def _add_all(self) -> None:
        """Git would store the commit of a repository in the worktree, and none of its files."""
        scope = everything_but(self._excluded)
        untracked = self.git.run("ls-files", "-z", "--others", "--exclude-standard", "--", *scope)
        self._refuse([path for path in untracked.split("\0") if path.endswith("/")])
        self.git.run("add", "-A", "--", *scope)
        # A CLI may have added it itself. As long as it is in the index, git does not see its files.
        added = self._new_gitlinks()
        self._unstage(added)
        self._refuse(added)

    def _new_gitlinks(self) -> list[str]:
        """Repositories in the index that HEAD does not have, and that are no declared submodules."""
        out = self.git.run(
            "diff", "--cached", "--raw", "-z", "--no-renames", "--diff-filter=AT", "HEAD", "--"
        )
        parts = out.split("\0")
        added = [path for kinds, path in zip(parts[::2], parts[1::2], strict=False) if " 160000 " in kinds]
        return [path for path in added if path not in self._submodules()]

    def _submodules(self) -> list[str]:
        args = ("config", "--file", ".gitmodules", "-z", "--get-regexp", r"^submodule\..*\.path$")
        if not (self.path / ".gitmodules").is_file() or not self.git.succeeds(*args):
            return []
        return [entry.partition("\n")[2] for entry in self.git.run(*args).split("\0") if entry]

    def _unstage(self, paths: Sequence[str]) -> None:
        if paths:
            self.git.run("reset", "--quiet", "HEAD", "--", *(f":(top,literal){path}" for path in paths))

    @staticmethod
    def _refuse(repositories: Sequence[str]) -> None:
        if repositories:
            path = repositories[0].rstrip("/")
            raise AgentError(
                AgentCode.COMMAND_FAILED,
                f"{path} is a git repository of its own: its files cannot be committed.",
                hint=f"Remove {path}/.git, or declare it in .gitmodules.",
            )

    def restore_staged(self) -> None:
        """Remove what tests have left behind: the worktree is what was staged. Ignored files stay."""
        scope = everything_but(self._excluded)
        self.git.run("checkout-index", "--all", "--force", "--quiet")
        # Twice -f: also repositories, which `stage` has not found before the tests.
        self.git.run("clean", "-f", "-f", "-d", "--quiet", "--", *scope)

    def undo_commits(self, since: str) -> None:
        """Undo commits that the CLI itself has made, and keep their changes staged: a step is one commit."""
        self._stay_on_branch()
        if self.head() != since:
            self.git.run("reset", "--soft", "--quiet", since)

    def commit(self, subject: str, trailer: str) -> str:
        """Commit what is staged, also if nothing is; returns the commit."""
        message = f"{_subject(subject)}\n\n{trailer}\n"
        args = ("commit", "--quiet", "--no-verify", "--allow-empty", "--cleanup=verbatim", "-F", "-")
        self.git.run(*self._identity(), *args, stdin=message)
        return self.head()

    def save(self, subject: str, trailer: str) -> str | None:
        """Commit uncommitted work, if there is any."""
        self._stay_on_branch()
        self.stage()
        return self.commit(subject, trailer) if self.differs_from("HEAD") else None

    def _commit_tree(self, tree: str, parents: list[str], subject: str) -> str:
        args = [part for parent in parents for part in ("-p", parent)]
        return self.git.run(
            *self._identity(), "commit-tree", tree, *args, "-F", "-", stdin=f"{subject}\n"
        ).strip()

    def _identity(self) -> list[str]:
        """Who commits: the person of the git configuration, else the agent."""
        if self.git.succeeds("config", "user.email") and self.git.succeeds("config", "user.name"):
            return []
        name, email = _AUTHOR
        return ["-c", f"user.name={name}", "-c", f"user.email={email}"]

    # Pushing

    def push(self) -> str:
        """Push the branch, unless the remote has it; returns its commit. AgentError PUSH_FAILED.

        From the repository's own folder: the address of the remote may be relative to it.
        """
        remote, head, code = self._settings.remote, self.head(), AgentCode.PUSH_FAILED
        if remote_head(self._main, remote, self.branch, code) == head:
            return head
        ref = f"refs/heads/{self.branch}"
        try:
            # No + and no force: the remote refuses what would remove somebody's commits.
            options = ("--no-verify", "--no-follow-tags", "--no-signed", "-u")
            self._main.network("push", *options, remote, f"{ref}:{ref}")
        except GitFailed as error:
            raise remote_failed(self._main, remote, error, code) from error
        return head

    def remote_url(self) -> str:
        return origin_url(self._main, self._settings.remote)


def is_saved(settings: AgentSettings, request_id: str, branch: str) -> bool:
    """Whether a request has no uncommitted work in its worktree."""
    worktree = Worktree(settings, request_id, branch)
    if not worktree.was_created():
        return True
    try:
        return worktree.is_ready() and not worktree.is_dirty()
    except GitFailed:
        # What a CLI has made of it is not known, and may contain work.
        return False


def wip_subject(request_id: str, step: str | None) -> str:
    return f"wip: work in progress (req:{request_id}{f' step:{step}' if step else ''})"


def wip_trailer(run_id: str, at: datetime) -> str:
    return f"Aiflow-Wip: {run_id} {at.isoformat(timespec='seconds')}"


def _subject(text: str) -> str:
    line = one_line(text)
    # A subject that starts with '#' or ':' is harmless with --cleanup=verbatim.
    return line if len(line) <= _SUBJECT_CHARS else f"{line[: _SUBJECT_CHARS - 1]}…"


def _escaped(pattern: str) -> str:
    return pattern.replace(".", "\\.")


def _count(text: str) -> int | None:
    return int(text) if text.isdigit() else None
