"""`pyoco-client` within the test's own process: what it does is the same, and it starts at once."""

import io
import os
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from unittest.mock import patch

from pyoco_server.cli.client import app
from pyoco_server.cli.entry import exit_code_of

from .programs import environment


def call_client(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """For commands that ask nobody and end by themselves; nobody is at the standard input."""
    stdout, stderr = io.StringIO(), io.StringIO()
    with (
        patch.dict(os.environ, environment(**settings), clear=True),
        redirect_stdout(stdout),
        redirect_stderr(stderr),
    ):
        code = exit_code_of(app, "pyoco-client", arguments)
    return subprocess.CompletedProcess(list(arguments), code, stdout.getvalue(), stderr.getvalue())
