"""`pyoco-client logs`: what a script reads, and what a person at a terminal sees."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from pyoco_server.records.models import RunStatus
from tests.support.commands import call_client
from tests.support.programs import CLIENT, SERVER, running, started
from tests.support.running.gateway import gateway_beside
from tests.support.running.printing_runs import SyncPrintingRun
from tests.support.terminal import CTRL_C, on_terminal
from tests.support.waiting import eventually_sync

NO_RUN = "00000000-0000-4000-8000-000000000000"
COMMAND = [sys.executable, "-m", CLIENT, "logs"]


@pytest.fixture(scope="module")
def at_nats(_unused_accounts: Iterator[str]) -> str:
    return next(_unused_accounts)


@pytest.fixture(scope="module")
def server(at_nats: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with gateway_beside(at_nats, tmp_path_factory.mktemp("gateway")) as url:
        yield url


@pytest.fixture
def run(at_nats: str) -> SyncPrintingRun:
    return SyncPrintingRun(at_nats)


@pytest.fixture
def printed(run: SyncPrintingRun) -> SyncPrintingRun:
    """A run that printed in every stream."""
    run.prints("one", "two")
    run.prints("careful", task="save", stream="stderr")
    run.prints("3 lines were dropped", task=None, stream="note")
    return run


def logs(server: str, run: SyncPrintingRun, *arguments: str) -> subprocess.CompletedProcess[str]:
    return call_client("logs", "--run-id", run.run_id, *arguments, PYOCO_SERVER=server)


def test_a_script_gets_plain_lines_with_their_task(server: str, printed: SyncPrintingRun) -> None:
    done = logs(server, printed)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "load | one",
        "load | two",
        "save ! careful",
        "- # 3 lines were dropped",
    ]


def test_json_is_one_object_a_line_with_the_text_as_it_was_printed(server: str, run: SyncPrintingRun) -> None:
    run.prints("\x1b[31mred\x1b[0m", "ありがとう")
    done = logs(server, run, "--output", "json")
    first, second = (json.loads(line) for line in done.stdout.splitlines())
    assert (first["text"], first["task"], first["stream"]) == ("\x1b[31mred\x1b[0m", "load", "stdout")
    assert second["text"] == "ありがとう"
    assert "ありがとう" in done.stdout


def test_options_choose_lines(server: str, printed: SyncPrintingRun) -> None:
    assert logs(server, printed, "--task", "save").stdout == "save ! careful\n"
    assert len(logs(server, printed, "--task", "save", "--task", "load").stdout.splitlines()) == 3
    assert logs(server, printed, "--stream", "stderr").stdout == "save ! careful\n"
    assert logs(server, printed, "--search", "TW").stdout == "load | two\n"
    assert logs(server, printed, "--tail", "2").stdout == "save ! careful\n- # 3 lines were dropped\n"
    assert logs(server, printed, "--tail", "2", "--task", "load").stdout == "load | one\nload | two\n"
    assert logs(server, printed, "--tail", "0").stdout == ""


def test_timestamps_stand_before_the_task(server: str, printed: SyncPrintingRun) -> None:
    first = logs(server, printed, "--timestamps").stdout.splitlines()[0]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d load \| one", first)


def test_following_ends_with_the_run_and_says_how_it_ended(server: str, run: SyncPrintingRun) -> None:
    run.prints("early", "later")
    arguments = ["--run-id", run.run_id, "--server", server, "--follow", "--tail", "1"]
    with started([*COMMAND, *arguments]) as program:
        program.writes("load | later\n")
        run.prints("last")
        program.writes("load | last\n")
        run.ends(RunStatus.FAILED)
        assert program.end() == 0
        assert program.stdout == "load | later\nload | last\n"
        assert program.stderr == "The run is FAILED.\n"


def test_ctrl_c_ends_the_following_and_not_the_run(server: str, run: SyncPrintingRun) -> None:
    run.prints("a")
    with started([*COMMAND, "--run-id", run.run_id, "--server", server, "-f"]) as program:
        program.writes("load | a\n")
        program.send(signal.SIGINT)
        assert program.end() == 130
        assert f"the run continues: pyoco-client get --run-id {run.run_id}" in program.stderr
        assert "Traceback" not in program.stderr


def test_a_terminal_shows_colours_and_keeps_its_own(server: str, run: SyncPrintingRun) -> None:
    """A line must not move the cursor, retitle the window or leave its colour to the next line."""
    run.prints("\x1b[31mred\x1b[0m", "\x1b]0;owned\x07title", "50%\r100%", "\x9b2Jcleared")
    run.prints("careful", stream="stderr")
    run.prints("dropped", task=None, stream="note")
    with on_terminal([*COMMAND, "--run-id", run.run_id, "--server", server, "-f"]) as terminal:
        terminal.shows("dropped")
        terminal.type(CTRL_C)
        assert terminal.end() == 130
    shown = terminal.text
    assert "\x1b[31mcareful\x1b[0m" in shown
    assert "\x1b[2mdropped\x1b[0m" in shown
    assert "\x1b[36mload\x1b[0m" in shown
    plain = re.sub("\x1b\\[[0-9;]*m", "", shown)
    assert "load | red\r\n" in plain
    assert "load | \ufffd]0;owned\ufffdtitle\r\n" in plain
    assert "load | 50%\ufffd100%\r\n" in plain
    assert "load | \ufffd2Jcleared\r\n" in plain
    assert "\x1b]" not in shown
    assert "\x1b[31mred" not in shown


def test_a_wide_line_is_not_broken_on_a_terminal(server: str, run: SyncPrintingRun) -> None:
    run.prints("word " * 60)
    run.ends()
    with on_terminal([*COMMAND, "--run-id", run.run_id, "--server", server]) as terminal:
        assert terminal.end() == 0
    assert ("word " * 60).strip() in terminal.text


def test_a_run_that_is_not_there_is_exit_code_1(server: str) -> None:
    for more in ([], ["-f"]):
        done = call_client("logs", "--run-id", NO_RUN, *more, PYOCO_SERVER=server)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("ERR-PYOCO-0005 ")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--stream", "stdin"], "'stdin' is not one of"),
        (["--tail", "-1"], "--tail"),
        (["--output", "table"], "'table' is not one of"),
    ],
    ids=str,
)
def test_a_usage_error_names_what_is_wrong(arguments: list[str], complaint: str) -> None:
    done = call_client("logs", "--run-id", NO_RUN, *arguments)
    assert done.returncode == 1
    assert done.stderr.startswith("ERR-PYOCO-0018 ")
    assert complaint in done.stderr


def test_following_outlives_a_gateway_that_restarts(nats_url: str) -> None:
    gateway = (SERVER, "up", "--nats-url", nats_url, "--port")
    with running(*gateway, "0") as (first, facts):
        run = SyncPrintingRun(nats_url)
        run.prints("a")
        with started([*COMMAND, "--run-id", run.run_id, "--server", facts["url"], "-f"]) as program:
            program.writes("load | a\n")
            first.send(signal.SIGTERM)
            assert first.end() == 0
            run.prints("b")
            with running(*gateway, facts["url"].rpartition(":")[2]):
                program.writes("load | b\n")
                run.ends()
                assert program.end() == 0
                assert program.stdout == "load | a\nload | b\n"


def test_a_reader_that_leaves_ends_the_command(server: str, run: SyncPrintingRun) -> None:
    run.prints("a")
    command = [*COMMAND, "--run-id", run.run_id, "--server", server, "-f"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"load | a\n"
        process.stdout.close()
        run.prints("b")
        eventually_sync(lambda: process.poll() is not None, describe="it ends")
        assert process.returncode == 1
