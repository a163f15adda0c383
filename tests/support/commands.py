"""Our commands within the process of the test: the same behaviour without the start of a process."""

import io
import os
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

from pyoco_server import admin_cli
from pyoco_server.cli import client_command as client
from pyoco_server.cli import worker_command as worker
from pyoco_server.cli.entry import exit_code_of
from pyoco_server.cli.server import server_command as server
from tests.support.programs import ADMIN, CLIENT, SERVER, WORKER, environment

_COMMANDS = {
    CLIENT: (client.app, "pyoco-client"),
    SERVER: (server.app, "pyoco-server"),
    WORKER: (worker.app, "pyoco-worker"),
    ADMIN: (admin_cli.app, "pyoco-server-admin"),
}


def call_client(
    *arguments: str, cwd: Path | None = None, **settings: str
) -> subprocess.CompletedProcess[str]:
    return call_command(CLIENT, *arguments, cwd=cwd, **settings)


def call_command(
    module: str, *arguments: str, cwd: Path | None = None, **settings: str
) -> subprocess.CompletedProcess[str]:
    """As `run_command`, for commands that end by themselves; nobody is at the standard input."""
    app, program = _COMMANDS[module]
    stdout, stderr = io.StringIO(), io.StringIO()
    with (
        patch.dict(os.environ, environment(**settings), clear=True),
        patch.object(sys, "stdin", io.StringIO()),
        chdir(cwd or Path.cwd()),
        redirect_stdout(stdout),
        redirect_stderr(stderr),
    ):
        try:
            code = exit_code_of(app, program, arguments)
        except SystemExit as left:  # how Typer ends when a shell has asked for words
            code = int(left.code or 0)
    return subprocess.CompletedProcess(list(arguments), code, stdout.getvalue(), stderr.getvalue())
