"""The programs as a user starts them."""

import json
import sys

import pytest

from tests.support.programs import ADMIN, CLIENT, SERVER, WORKER, started


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        (SERVER, ["up", "--port", "x"]),
        (WORKER, ["--tag", "a.b"]),
        (CLIENT, ["submit"]),
        (ADMIN, ["what"]),
    ],
)
def test_a_usage_error_exits_with_1(module: str, arguments: list[str]) -> None:
    with started([sys.executable, "-m", module, *arguments]) as program:
        assert (program.end(), program.stdout) == (1, "")
        assert "ERR-PYOCO-0018" in program.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&- 2>&-"])
def test_a_closed_standard_stream_is_an_empty_one(closed: str) -> None:
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh"]
    with started([*shell, sys.executable, "-m", CLIENT, "--version"]) as program:
        assert (program.end(), program.stderr) == (0, "")


def test_programs_that_are_started_have_the_streams_that_were_closed() -> None:
    """A worker starts executors, which write to theirs."""
    started_here = "import os, sys; [os.fstat(number) for number in (0, 1, 2)]"
    script = (
        "import subprocess, sys; from pyoco_server.cli import entry; entry._open_closed_streams();"
        f"sys.exit(subprocess.run([sys.executable, '-c', {started_here!r}]).returncode)"
    )
    shell = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"]
    with started([*shell, sys.executable, "-c", script]) as program:
        assert program.end() == 0


@pytest.mark.parametrize(("setting", "value"), [("PYTHONIOENCODING", "ascii"), ("COLUMNS", "0")])
def test_results_are_printed_on_any_terminal(setting: str, value: str) -> None:
    script = (
        "import sys, typer; from pyoco_server.cli import entry; from pyoco_server.cli.views import console\n"
        "app = typer.Typer()\n"
        "@app.command()\n"
        "def show():\n"
        "    for output in console.OutputFormat:\n"
        "        console.show({'名': '日本語 \U0001f600'}, output, lambda it: it['名'])\n"
        "entry.run(app, 'show')"
    )
    with started(["env", f"{setting}={value}", sys.executable, "-c", script]) as program:
        assert (program.end(), program.stderr) == (0, "")
        text = program.stdout
    shown, end = json.JSONDecoder().raw_decode(text)
    assert shown == {"名": "日本語 \U0001f600"}
    assert text[end:].strip() in ("日本語 \U0001f600", r"\u65e5\u672c\u8a9e \U0001f600")


def test_a_prompt_without_standard_input_is_a_usage_error() -> None:
    shell = ["sh", "-c", 'exec "$@" <&-', "sh"]
    run_id = "00000000-0000-0000-0000-000000000000"
    with started([*shell, sys.executable, "-m", CLIENT, "resume", run_id]) as program:
        assert (program.end(), program.stdout) == (1, "")
        assert program.stderr.startswith("ERR-PYOCO-0018 ")
