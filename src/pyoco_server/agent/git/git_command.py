"""Runs git without anything that the repository could make it execute, and without a prompt.

A repository's own configuration and hooks may come from whoever made the folder. Hooks, the file monitor,
signing, pagers, editors and external diffs are switched off for each call. What cannot be switched off
(filters, an ssh command, credential helpers) is refused where the repository's configuration sets it; in the
person's own configuration it is trusted.
"""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pyoco_server.agent.agent_errors import AgentCode, AgentError
from pyoco_server.agent.chosen_environment import chosen_environment, program_path

LOCAL_SEC: Final = 120.0
NETWORK_SEC: Final = 600.0
_POLL_SEC: Final = 0.2
_SHOWN_CHARS: Final = 2000

_SWITCHED_OFF: Final = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.pager": "cat",
    "core.alternateRefsCommand": "",
    "core.quotePath": "false",
    "commit.gpgSign": "false",
    "tag.gpgSign": "false",
    "push.gpgSign": "false",
    "push.followTags": "false",
    "push.recurseSubmodules": "no",
    "log.showSignature": "false",
    "merge.verifySignatures": "false",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "advice.detachedHead": "false",
    "protocol.ext.allow": "never",
}
_ENVIRONMENT: Final = {
    "LC_ALL": "C.UTF-8",
    "GIT_TERMINAL_PROMPT": "0",
    # Empty: neither core.askPass nor SSH_ASKPASS is executed.
    "GIT_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
    "GIT_EDITOR": "false",
    "GIT_SEQUENCE_EDITOR": "false",
    "GIT_PAGER": "cat",
    "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
}
_PERSONAL: Final = (
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
    "NO_PROXY",
    "no_proxy",
    "SSH_AUTH_SOCK",
    "GIT_SSH_COMMAND",
    "XDG_CONFIG_HOME",
    "SSL_CERT_FILE",
    "HTTPS_PROXY",
    "https_proxy",
)
_EXECUTES_CODE: Final = re.compile(
    r"filter\..*\.(clean|smudge|process)|core\.(sshcommand|gitproxy|worktree)|credential(\..*)?\.helper"
    r"|remote\..*\.(uploadpack|receivepack|vcs|proxy)|hook\..*\.command"
    # May hold in the worktree only, for its folder or its branch: what it includes is not seen before.
    r"|includeif\..*\.path",
    re.DOTALL,
)
_AUTH: Final = re.compile(
    r"could not read (Username|Password)|terminal prompts disabled|Authentication failed|Permission denied"
    r"|Host key verification failed|HTTP Basic: Access denied|403 Forbidden|returned error: 40[13]",
    re.IGNORECASE,
)


class GitFailed(Exception):
    """A git command has failed; its last lines say why."""

    def __init__(self, args: Sequence[str], code: int, stderr: str) -> None:
        # Options come before the name of the command.
        name = next((part for part in args if not part.startswith("-") and "=" not in part), "")
        super().__init__(f"git {name} failed with exit code {code}: {stderr.strip() or 'no message'}")
        self.code = code
        self.stderr = stderr.strip()

    @property
    def needs_credentials(self) -> bool:
        return _AUTH.search(self.stderr) is not None


class _NoResult(Exception):
    """A command has passed its time limit."""


class Interrupted(Exception):
    """The run was stopped while a program executed."""


@dataclass(frozen=True)
class Git:
    """Git commands in one folder."""

    folder: Path
    is_cancelled: Callable[[], bool] = lambda: False
    # Whether the folder itself must be the work tree. Else git looks for one in the folders above, and would
    # use the person's repository instead of a worktree whose `.git` a CLI has removed.
    is_top: bool = False

    def run(self, *args: str, stdin: str | None = None, timeout_sec: float = LOCAL_SEC) -> str:
        """Standard output; GitFailed for an exit code other than 0."""
        code, out, err = self._execute(args, stdin, timeout_sec)
        if code != 0:
            raise GitFailed(args, code, redacted(err[-_SHOWN_CHARS:]))
        return out

    def line(self, *args: str) -> str:
        return self.run(*args).strip()

    def succeeds(self, *args: str) -> bool:
        return self._execute(args, None, LOCAL_SEC)[0] == 0

    def network(self, *args: str) -> str:
        return self.run(*args, timeout_sec=NETWORK_SEC)

    def _execute(self, args: Sequence[str], stdin: str | None, timeout_sec: float) -> tuple[int, str, str]:
        try:
            program = program_path("git", self.folder)
        except AgentError as error:
            hint = "Install git, such as with: apt-get install git"
            raise AgentError(AgentCode.GIT_NOT_INSTALLED, "git is not installed.", hint=hint) from error
        options = [part for key, value in _SWITCHED_OFF.items() for part in ("-c", f"{key}={value}")]
        # A session of its own: without a terminal, ssh cannot ask for a password.
        process = subprocess.Popen(
            [program, *options, *args],
            cwd=self.folder,
            env=chosen_environment(_PERSONAL, _ENVIRONMENT | self._ceiling()),
            stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        with process:
            try:
                out, err = self._communicate(process, stdin, timeout_sec)
            except _NoResult as error:
                _kill_group(process.pid)
                raise GitFailed(args, -1, f"no result within {timeout_sec:g} s") from error
            except BaseException:
                _kill_group(process.pid)
                raise
        return (
            process.returncode,
            out.decode(errors="backslashreplace"),
            err.decode(errors="backslashreplace"),
        )

    def _ceiling(self) -> dict[str, str]:
        return {"GIT_CEILING_DIRECTORIES": str(self.folder.parent.resolve())} if self.is_top else {}

    def _communicate(
        self, process: "subprocess.Popen[bytes]", stdin: str | None, timeout_sec: float
    ) -> tuple[bytes, bytes]:
        given = None if stdin is None else stdin.encode(errors="backslashreplace")
        deadline = time.monotonic() + timeout_sec
        while True:
            try:
                return process.communicate(given, timeout=_POLL_SEC)
            except subprocess.TimeoutExpired:
                # What was given is sent already.
                given = None
            # Only waiting for a network is interrupted: a commit takes a moment, and is not left half made.
            if timeout_sec == NETWORK_SEC and self.is_cancelled():
                raise Interrupted
            if time.monotonic() > deadline:
                raise _NoResult


def untrusted_config(git: Git) -> list[str]:
    """The keys of the repository's own configuration by which it would have git execute a program."""
    out = git.run("config", "--list", "--includes", "--show-scope", "--name-only", "-z")
    parts = out.split("\0")
    scoped = zip(parts[::2], parts[1::2], strict=False)
    local = {key for scope, key in scoped if scope in {"local", "worktree"}}
    return sorted(key for key in local if _EXECUTES_CODE.fullmatch(key.lower()))


def check_config(git: Git) -> None:
    if keys := untrusted_config(git):
        key = keys[0]
        raise AgentError(
            AgentCode.GIT_CONFIG_UNTRUSTED,
            f"The configuration of the repository sets {', '.join(keys)}, by which git executes programs.",
            hint=(
                f"If you trust it, move it to your own configuration: git config --global {key} "
                f'"$(git config --local {key})" && git config --local --unset-all {key}'
            ),
            details={"keys": keys},
        )


def redacted(text: str) -> str:
    """Without the user name and password of an address."""
    return re.sub(r"(?<=://)[^/\s@]+@", "", text)


def without_credentials(url: str) -> str:
    """The address of a remote as it may be shown."""
    return redacted(url) if urlsplit(url).scheme else url


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
