"""Checks before the first run: tools, repository and settings. Nothing is changed."""

import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyoco_server.agent.agent_errors import AgentError
from pyoco_server.agent.agent_settings import ROLES, AgentSettings, Argv
from pyoco_server.agent.chosen_environment import chosen_environment, program_path
from pyoco_server.agent.git.git_command import Git, GitFailed, check_config, without_credentials
from pyoco_server.agent.git.repository import check_base, check_clean, check_folder, origin_url

_VERSION_SEC: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    name: str
    ok: bool
    version: str | None = None
    details: str | None = None
    # The command that would repair it.
    fix: str | None = None


def run_doctor(settings: AgentSettings, *, port: int | None = None) -> list[Check]:
    """Every check, in an order in which each presumes those before it. `port`: one that must be free."""
    git = Git(settings.repo)
    config = _check_of("git_config", lambda: check_config(git), "no setting runs a program")
    checks = [
        _git(),
        _check_of("repo", lambda: check_folder(git), str(settings.repo)),
        config,
        *_under_trusted_config(settings, git, is_trusted=config.ok),
        _check_of(
            "folders",
            settings.paths.check_writable,
            f"{settings.requests_dir}, {settings.runs_dir} and .aiflow are writable",
        ),
        _node(settings),
        *_clis(settings),
        *_commands(settings),
    ]
    return checks if port is None else [*checks, _port(settings.host, port)]


def _under_trusted_config(settings: AgentSettings, git: Git, *, is_trusted: bool) -> Iterator[Check]:
    """Checks in which git may execute what its configuration names: a filter, a transport."""
    checks: dict[str, Callable[[], Check]] = {
        "worktree": lambda: _check_of("worktree", lambda: check_clean(git, settings.paths.excluded), "clean"),
        "origin": lambda: _origin(settings, git),
        "base_branch": lambda: _check_of(
            "base_branch",
            lambda: check_base(git, settings.remote, settings.base_branch),
            settings.base_branch,
        ),
    }
    for name, check in checks.items():
        yield check() if is_trusted else Check(name=name, ok=False, details="not checked: see git_config")


def _check_of(name: str, check: Callable[[], object], details: str) -> Check:
    try:
        check()
    except AgentError as error:
        return Check(name=name, ok=False, details=error.message, fix=error.hint)
    except (GitFailed, OSError) as error:
        return Check(name=name, ok=False, details=str(error))
    return Check(name=name, ok=True, details=details)


def _git() -> Check:
    version = _version("git", Path("/"))
    if version is None:
        return Check(name="git", ok=False, details="git is not installed", fix="apt-get install git")
    return Check(name="git", ok=True, version=version.removeprefix("git version "))


def _origin(settings: AgentSettings, git: Git) -> Check:
    try:
        url = without_credentials(origin_url(git, settings.remote))
    except AgentError as error:
        return Check(name="origin", ok=False, details=error.message, fix=error.hint)
    return Check(name="origin", ok=True, details=url)


def _node(settings: AgentSettings) -> Check:
    """Most coding CLIs are Node programs; without Node only those fail that need it."""
    version = _version("node", settings.repo)
    if version is None:
        details = "not installed; the coding CLI may need it"
        return Check(name="node", ok=False, details=details, fix="apt-get install nodejs")
    return Check(name="node", ok=True, version=version.removeprefix("v"))


def _clis(settings: AgentSettings) -> Iterator[Check]:
    # A program of several roles is checked once, as the implementer's if it is one of them.
    roles = ("implementer", *ROLES)
    commands = {role: command for role in roles if (command := getattr(settings, role)) is not None}
    if settings.implementer is None:
        yield Check(
            name="ai_cli",
            ok=False,
            details="no coding CLI is configured",
            fix='.aiflowrc.json: {"ai": {"implementer": ["codex", "exec", "{prompt}"]}}',
        )
    seen: set[str] = set()
    for role, command in commands.items():
        if command[0] in seen:
            continue
        seen.add(command[0])
        name = "ai_cli" if role == "implementer" else f"ai_cli_{role}"
        yield _program(name, command, settings.repo)


def _commands(settings: AgentSettings) -> Iterator[Check]:
    named = {
        "unit_test": settings.unit_test,
        "e2e_test": settings.e2e_test,
        "lint": settings.lint,
        "typecheck": settings.typecheck,
    }
    for name, command in named.items():
        if command is not None:
            yield _program(name, command, settings.repo)


def _program(name: str, command: Argv, repo: Path) -> Check:
    try:
        program_path(command[0], repo)
    except AgentError as error:
        return Check(name=name, ok=False, details=error.message, fix=error.hint)
    return Check(name=name, ok=True, details=f"{command[0]} available")


def _port(host: str, port: int) -> Check:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            details = f"{host}:{port}: {error.strerror}"
            return Check(
                name="port", ok=False, details=details, fix="pyoco-server agent --port 0 takes a free one"
            )
    return Check(name="port", ok=True, details=f"{host}:{port} is free")


def _version(program: str, folder: Path) -> str | None:
    """What the program says of itself; None if it does not start."""
    try:
        done = subprocess.run(
            [program_path(program, folder), "--version"],
            env=chosen_environment(),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_VERSION_SEC,
            check=True,
        )
    except (AgentError, OSError, subprocess.SubprocessError):
        return None
    return done.stdout.partition("\n")[0].strip()
