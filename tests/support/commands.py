"""Our commands within the process of the test: the same behaviour without the start of a process."""

import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import IO, Any
from unittest.mock import patch

from pyoco_server import admin_cli
from pyoco_server.cli import client_command as client
from pyoco_server.cli import worker_command as worker
from pyoco_server.cli.entry import exit_code_of
from pyoco_server.cli.server import server_command as server
from tests.support.programs import (
    ADMIN,
    CLIENT,
    SERVER,
    WORKER,
    Program,
    environment,
    forked,
    run_command,
    run_command_into,
)
from tests.support.terminal import Terminal, on_terminal

_COMMANDS = {
    CLIENT: (client.app, "pyoco-client"),
    SERVER: (server.app, "pyoco-server"),
    WORKER: (worker.app, "pyoco-worker"),
    ADMIN: (admin_cli.app, "pyoco-server-admin"),
}


def call_client(
    *arguments: str, cwd: Path | None = None, stdin: str = "", **settings: str
) -> subprocess.CompletedProcess[str]:
    return call_command(CLIENT, *arguments, cwd=cwd, stdin=stdin, **settings)


def call_command(
    module: str, *arguments: str, cwd: Path | None = None, stdin: str = "", **settings: str
) -> subprocess.CompletedProcess[str]:
    """As `run_command`, for commands that end by themselves."""
    app, program = _COMMANDS[module]
    stdout, stderr = io.StringIO(), io.StringIO()
    with (
        patch.dict(os.environ, environment(**settings), clear=True),
        _standard_input(stdin) as piped,
        patch.object(sys, "stdin", piped),
        chdir(cwd or Path.cwd()),
        redirect_stdout(stdout),
        redirect_stderr(stderr),
    ):
        try:
            code = exit_code_of(app, program, arguments)
        except SystemExit as left:  # how Typer ends when a shell has asked for words
            code = int(left.code or 0)
    return subprocess.CompletedProcess(list(arguments), code, stdout.getvalue(), stderr.getvalue())


@contextmanager
def _standard_input(text: str) -> Iterator[IO[str]]:
    """A file with this text: commands wait for the descriptor of their input."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        file.write(text)
        file.seek(0)
        yield file


class ClientCommand:
    """`pyoco-client` for one gateway."""

    def __init__(self, server: str, **settings: str) -> None:
        self.server = server
        self._settings = {"PYOCO_SERVER": server, **settings}

    def __call__(
        self, *arguments: str, cwd: Path | None = None, stdin: str = "", **settings: str
    ) -> subprocess.CompletedProcess[str]:
        """Within this process."""
        return call_command(CLIENT, *arguments, cwd=cwd, stdin=stdin, **{**self._settings, **settings})

    def json(self, *arguments: str, cwd: Path | None = None, **settings: str) -> Any:
        """What a successful command writes for a script."""
        done = self(*arguments, cwd=cwd, **settings)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def table(self, *arguments: str, columns: int = 80) -> str:
        """What a command writes for a person."""
        return self(*arguments, "--output", "table", COLUMNS=str(columns)).stdout

    def error(self, *arguments: str, cwd: Path | None = None, **settings: str) -> str:
        """The message of a command that fails with exit code 1 and no output."""
        done = self(*arguments, cwd=cwd, **settings)
        assert (done.returncode, done.stdout) == (1, ""), done.stdout
        return done.stderr

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """In a process of its own."""
        return run_command(CLIENT, *arguments, cwd=None, **self._settings)

    def run_into(self, stdout: int, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The same with this file as its standard output."""
        return run_command_into(stdout, CLIENT, *arguments, **self._settings)

    def start(self, *arguments: str) -> AbstractContextManager[Program]:
        return forked(CLIENT, *arguments, cwd=None, **self._settings)

    def on_terminal(self, *arguments: str, **settings: str) -> AbstractContextManager[Terminal]:
        return on_terminal(CLIENT, *arguments, cwd=None, **{**self._settings, **settings})
