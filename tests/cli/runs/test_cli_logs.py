"""`pyoco-client logs`: lines for a script, colours on a terminal."""

import json
import re
import signal
import subprocess
import sys

import pytest

from pyoco_server.records.runs.run_models import RunStatus
from tests.support.broker.connections import SyncConnection
from tests.support.commands import ClientCommand
from tests.support.programs import CLIENT, SERVER, running
from tests.support.running.printing_runs import SyncPrintingRun
from tests.support.terminal import CTRL_C
from tests.support.waiting import eventually_sync

NO_RUN = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def run(shared_nats_connection: SyncConnection) -> SyncPrintingRun:
    return SyncPrintingRun(shared_nats_connection)


@pytest.fixture
def printed(run: SyncPrintingRun) -> SyncPrintingRun:
    """A run that printed in every stream."""
    run.prints("one", "two")
    run.prints("careful", task="save", stream="stderr")
    run.prints("3 lines were dropped", task=None, stream="note")
    return run


def follow(run: SyncPrintingRun, *more: str) -> tuple[str, ...]:
    return ("logs", "--run-id", run.run_id, "--follow", *more)


def test_lines_have_their_task(client: ClientCommand, printed: SyncPrintingRun) -> None:
    done = client("logs", "--run-id", printed.run_id)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "load | one",
        "load | two",
        "save ! careful",
        "- # 3 lines were dropped",
    ]


def test_json_has_an_object_per_line_with_the_text_as_printed(
    client: ClientCommand, run: SyncPrintingRun
) -> None:
    run.prints("\x1b[31mred\x1b[0m", "ありがとう")
    done = client("logs", "--run-id", run.run_id, "--output", "json")
    first, second = (json.loads(line) for line in done.stdout.splitlines())
    assert (first["text"], first["task"], first["stream"]) == ("\x1b[31mred\x1b[0m", "load", "stdout")
    assert second["text"] == "ありがとう"
    assert "ありがとう" in done.stdout


def test_options_select_lines(client: ClientCommand, printed: SyncPrintingRun) -> None:
    def lines(*options: str) -> str:
        return client("logs", "--run-id", printed.run_id, *options).stdout

    assert lines("--task", "save") == "save ! careful\n"
    assert len(lines("--task", "save", "--task", "load").splitlines()) == 3
    assert lines("--stream", "stderr") == "save ! careful\n"
    assert lines("--search", "TW") == "load | two\n"
    assert lines("--tail", "2") == "save ! careful\n- # 3 lines were dropped\n"
    assert lines("--tail", "2", "--task", "load") == "load | one\nload | two\n"
    assert lines("--tail", "0") == ""
    with_time = lines("--timestamps").splitlines()[0]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d load \| one", with_time)


def test_the_lines_around_one(client: ClientCommand, run: SyncPrintingRun) -> None:
    run.prints(*(f"row {at}" for at in range(100)))
    shown = client("logs", run.run_id, "--output", "json", "--search", "row 50").stdout
    line = json.loads(shown)["id"]
    around = client("logs", run.run_id, "--around", line).stdout.splitlines()
    assert (around[0], around[-1], len(around)) == ("load | row 30", "load | row 70", 41)
    assert "use --around without --follow and --tail" in client.error(
        "logs", run.run_id, "--around", line, "--tail", "3"
    )


def test_following_ends_with_the_run_and_its_status(client: ClientCommand, run: SyncPrintingRun) -> None:
    run.prints("early", "later")
    with client.start(*follow(run, "--tail", "1")) as program:
        program.writes("load | later\n")
        run.prints("last")
        program.writes("load | last\n")
        run.ends(RunStatus.FAILED)
        assert program.end() == 0
        assert program.stdout == "load | later\nload | last\n"
        assert program.stderr == "The run is FAILED.\n"


def test_ctrl_c_ends_the_following_and_not_the_run(client: ClientCommand, run: SyncPrintingRun) -> None:
    run.prints("a")
    with client.start(*follow(run)) as program:
        program.writes("load | a\n")
        program.send(signal.SIGINT)
        assert program.end() == 130
        assert f"the run continues: pyoco-client get {run.run_id}" in program.stderr
        assert "Traceback" not in program.stderr


def test_a_terminal_shows_colours_of_streams_and_none_of_tasks(
    client: ClientCommand, run: SyncPrintingRun
) -> None:
    """A line must not move the cursor, retitle the window or leave its colour to the next line."""
    run.prints("\x1b[31mred\x1b[0m", "\x1b]0;owned\x07title", "50%\r100%", "\x9b2Jcleared", "word " * 60)
    run.prints("careful", stream="stderr")
    run.prints("dropped", task=None, stream="note")
    with client.on_terminal(*follow(run)) as terminal:
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
    assert ("word " * 60).strip() in plain, "a long line is not wrapped"


@pytest.mark.parametrize("more", [(), ("-f",)], ids=["read", "follow"])
def test_an_unknown_run_is_an_error(client: ClientCommand, more: tuple[str, ...]) -> None:
    assert client.error("logs", "--run-id", NO_RUN, *more).startswith("ERR-PYOCO-0005 ")


def test_following_continues_after_a_restart_of_the_gateway(nats_url: str) -> None:
    gateway = (SERVER, "up", "--nats-url", nats_url, "--port")
    with running(*gateway, "0") as (first, facts):
        run = SyncPrintingRun(nats_url)
        run.prints("a")
        with ClientCommand(facts["url"]).start(*follow(run)) as program:
            program.writes("load | a\n")
            first.send(signal.SIGTERM)
            assert first.end() == 0
            run.prints("b")
            with running(*gateway, facts["url"].rpartition(":")[2]):
                program.writes("load | b\n")
                run.ends()
                assert program.end() == 0
                assert program.stdout == "load | a\nload | b\n"


def test_a_reader_that_closes_its_pipe_ends_the_command(client: ClientCommand, run: SyncPrintingRun) -> None:
    run.prints("a")
    command = [sys.executable, "-m", CLIENT, *follow(run), "--server", client.server]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"load | a\n"
        process.stdout.close()
        run.prints("b")
        eventually_sync(lambda: process.poll() is not None, describe="it ends")
        assert process.returncode == 1
