"""The repository that a person works in: what must hold before a run may start. Nothing here changes it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pyoco_server.agent.agent_errors import AgentCode, AgentError
from pyoco_server.agent.agent_settings import AgentSettings
from pyoco_server.agent.git.branch_names import branch_problem
from pyoco_server.agent.git.git_command import Git, GitFailed, check_config, without_credentials
from pyoco_server.errors import shortened

_SHOWN_PATHS: Final = 10


def check_repository(
    settings: AgentSettings, base: str, branch: str, is_cancelled: Callable[[], bool] = lambda: False
) -> None:
    """Raise the first problem that stops a run: of names, folder, configuration, changes, remote or base."""
    check_branches(settings, base, branch)
    git = Git(settings.repo, is_cancelled)
    check_folder(git)
    check_config(git)
    check_clean(git, settings.paths.excluded)
    origin_url(git, settings.remote)
    check_base(git, settings.remote, base)


def check_branches(settings: AgentSettings, base: str, branch: str) -> None:
    """AgentError INVALID_REQUEST unless both are names, and the branch is one that an agent may commit on."""
    for name, given in (("base", base), ("branch", branch)):
        if problem := branch_problem(given):
            raise _invalid(name, given, f"{problem}")
    if branch in {base, settings.base_branch}:
        raise _invalid("branch", branch, "an agent never commits on a base branch; use another name")
    if not branch.startswith(settings.branch_prefix) or branch == settings.branch_prefix:
        start = settings.branch_prefix
        raise _invalid(
            "branch", branch, f"it must start with {start!r} (git.branchPrefix), such as '{start}fix'"
        )


def _invalid(field: str, given: str, why: str) -> AgentError:
    return AgentError(AgentCode.INVALID_REQUEST, f"{field}={shortened(given)} cannot be used: {why}.")


def check_folder(git: Git) -> None:
    """The folder must be the top of a work tree."""
    try:
        top = Path(git.line("rev-parse", "--show-toplevel"))
    except GitFailed as error:
        raise AgentError(
            AgentCode.NOT_A_GIT_REPO,
            f"{git.folder} is not a git repository: {error.stderr or error}",
            hint=f"git init {git.folder}",
        ) from error
    except OSError as error:
        raise AgentError(
            AgentCode.NOT_A_GIT_REPO, f"{git.folder} cannot be opened: {error.strerror}."
        ) from error
    if top.resolve() != git.folder.resolve():
        raise AgentError(
            AgentCode.NOT_A_GIT_REPO,
            f"{git.folder} is not the top of its repository.",
            hint=f"Use --repo {top}",
        )


def check_clean(git: Git, excluded: Sequence[str]) -> None:
    if paths := changed_paths(git, excluded):
        shown = ", ".join(paths[:_SHOWN_PATHS])
        raise AgentError(
            AgentCode.WORKTREE_DIRTY,
            f"Git working tree is not clean: {shown}{' ...' if len(paths) > _SHOWN_PATHS else ''}",
            hint="Please commit/stash or clean your working tree.",
            details={"paths": paths[:_SHOWN_PATHS]},
        )


def changed_paths(git: Git, excluded: Sequence[str]) -> list[str]:
    """Files with uncommitted changes, and untracked ones, outside the excluded folders."""
    scope = everything_but(excluded)
    out = git.run("status", "--porcelain=v1", "-z", "--no-renames", "--ignore-submodules=all", "--", *scope)
    return [entry[3:] for entry in out.split("\0") if entry]


def everything_but(excluded: Sequence[str]) -> list[str]:
    """A pathspec."""
    return [":(top)", *(f":(top,exclude,literal){folder}" for folder in excluded)]


def origin_url(git: Git, remote: str) -> str:
    try:
        return git.line("remote", "get-url", remote)
    except GitFailed as error:
        raise AgentError(
            AgentCode.REMOTE_ORIGIN_MISSING,
            f"The repository has no remote {remote!r}.",
            hint=f"git -C {git.folder} remote add {remote} <address>",
        ) from error


def check_base(git: Git, remote: str, base: str) -> None:
    if remote_head(git, remote, base) is None:
        raise AgentError(
            AgentCode.BASE_BRANCH_NOT_FOUND,
            f"base={base!r}: {remote} has no branch of this name.",
            hint=f"git push {remote} {base}, or choose another base.",
        )


def remote_head(
    git: Git, remote: str, branch: str, code: AgentCode = AgentCode.REMOTE_ORIGIN_MISSING
) -> str | None:
    """The commit of a branch on the remote; None if it has none. AgentError `code` if it is not reached."""
    ref = f"refs/heads/{branch}"
    try:
        out = git.network("ls-remote", "--heads", remote, ref)
    except GitFailed as error:
        raise remote_failed(git, remote, error, code) from error
    lines = [line.partition("\t") for line in out.splitlines()]
    return next((commit for commit, _, name in lines if name == ref), None)


def remote_failed(git: Git, remote: str, error: GitFailed, code: AgentCode) -> AgentError:
    """AUTH_REQUIRED if the remote asks who this is, else the given code."""
    url = without_credentials(git.line("remote", "get-url", remote))
    if error.needs_credentials:
        return AgentError(
            AgentCode.AUTH_REQUIRED,
            f"{remote} ({url}) asks for credentials: {error.stderr}",
            hint=f"Try: git -C {git.folder} ls-remote {remote}. It must work without a prompt.",
        )
    return AgentError(
        code,
        f"{remote} ({url}): {error.stderr or error}",
        hint=f"Try: git -C {git.folder} ls-remote {remote}",
    )
