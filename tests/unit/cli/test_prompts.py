"""What is typed at a prompt of a command or piped into it, and Ctrl-C or Ctrl-D instead of it."""

import _thread
import fcntl
import os
import pty
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from pathlib import Path

import pytest
import typer

from pyoco_server.cli.forms.dialogue import TerminalDialogue
from pyoco_server.cli.forms.standard_input import piped_line, piped_text
from pyoco_server.cli.options.json_option import given_json
from pyoco_server.errors import InvalidCliArgument
from tests.support.waiting import LIMIT_SEC, eventually_sync

CTRL_D = b"\x04"


def is_blocked(thread: int) -> bool:
    """Whether this thread of the process waits for something."""
    return Path(f"/proc/self/task/{thread}/stat").read_text().rpartition(")")[2].split()[0] == "S"


class Keyboard:
    def __init__(self) -> None:
        self._outside, inside = pty.openpty()
        self.terminal = open(inside, encoding="utf-8")  # noqa: SIM115
        self._prompted = threading.get_native_id()

    def type(self, keys: bytes) -> None:
        os.write(self._outside, keys)

    def is_awaited(self) -> bool:
        """Whether the thread that this was made in is blocked."""
        return is_blocked(self._prompted)

    def close(self) -> None:
        self.terminal.close()
        os.close(self._outside)


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[Keyboard]:
    """The standard input is a terminal."""
    keyboard = Keyboard()
    monkeypatch.setattr(sys, "stdin", keyboard.terminal)
    yield keyboard
    keyboard.close()


@pytest.fixture
def meanwhile() -> Iterator[Callable[..., object]]:
    with ThreadPoolExecutor() as threads:
        yield threads.submit


def test_the_typed_line_is_the_answer(keyboard: Keyboard, capsys: pytest.CaptureFixture[str]) -> None:
    keyboard.type(b" some words \n\nnext\n")
    ask = TerminalDialogue().ask
    assert [ask("Sure?"), ask("Note"), ask("More?")] == [" some words ", "", "next"]
    assert capsys.readouterr() == ("", "Sure? Note: More? ")


def test_lines_that_arrive_together_through_a_pipe_are_all_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its writer stays open, so that nothing else arrives."""
    reading, writing = os.pipe()
    os.write(writing, b"first\nsecond\n")
    with open(reading, encoding="utf-8") as pipe:
        monkeypatch.setattr(sys, "stdin", pipe)
        assert [TerminalDialogue().ask("Sure?") for _ in range(2)] == ["first", "second"]
    os.close(writing)


def test_ctrl_d_ends_the_command(keyboard: Keyboard) -> None:
    keyboard.type(CTRL_D)
    with pytest.raises(typer.Abort):
        TerminalDialogue().ask("Sure?")


def test_ctrl_c_that_interrupts_no_read_is_not_lost(
    keyboard: Keyboard, meanwhile: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Ctrl-C between the output of the prompt and the read: Python has noted it when the read begins."""
    prompts = StringIO()
    monkeypatch.setattr(sys, "stderr", prompts)
    is_lost, has_ended = threading.Event(), threading.Event()

    def interrupt() -> None:
        eventually_sync(lambda: prompts.getvalue() and keyboard.is_awaited(), describe="the prompt")
        _thread.interrupt_main()
        if not has_ended.wait(LIMIT_SEC):
            is_lost.set()
            keyboard.type(b"\n")

    meanwhile(interrupt)
    with pytest.raises((KeyboardInterrupt, typer.Abort)):
        TerminalDialogue().ask("Sure?")
    has_ended.set()
    assert not is_lost.is_set()


class Pipe:
    """The standard input of a command, to which a program writes."""

    def __init__(self) -> None:
        reading, self.writing = os.pipe()
        # As in the locale of most containers, where any bytes are text.
        self.input = open(reading, encoding="utf-8", errors="surrogateescape")  # noqa: SIM115

    def write(self, data: bytes) -> None:
        os.write(self.writing, data)

    def is_empty(self) -> bool:
        return fcntl.ioctl(self.input, termios.FIONREAD, bytes(4)) == bytes(4)

    def end(self) -> None:
        os.close(self.writing)


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipe]:
    pipe = Pipe()
    monkeypatch.setattr(sys, "stdin", pipe.input)
    yield pipe
    pipe.input.close()


def test_everything_that_is_piped_is_read(pipe: Pipe, meanwhile: Callable[..., object]) -> None:
    text = "ü" * 200_000

    def write() -> None:
        with open(pipe.writing, "wb") as writer:
            writer.write(text.encode() + b"\r\nlast")

    meanwhile(write)
    assert piped_text() == f"{text}\nlast"


def test_a_secret_is_the_first_line_and_needs_no_end_of_the_input(pipe: Pipe) -> None:
    pipe.write("geheim-ü\nmore".encode())
    assert piped_line() == "geheim-ü"
    pipe.end()


def test_an_empty_input_has_an_empty_line(pipe: Pipe) -> None:
    pipe.end()
    assert piped_line() == ""


def test_piped_bytes_that_are_no_text_are_refused(pipe: Pipe) -> None:
    pipe.write(b"\xff")
    pipe.end()
    with pytest.raises(InvalidCliArgument, match="the standard input is not UTF-8 text"):
        given_json("-")


def test_ctrl_c_that_interrupts_no_read_of_a_pipe_is_not_lost(
    pipe: Pipe, meanwhile: Callable[..., object]
) -> None:
    """As Ctrl-C between two reads of a pipe whose writer stays open: Python has noted it when it reads on."""
    reader = threading.get_native_id()
    is_lost, has_ended = threading.Event(), threading.Event()

    def interrupt() -> None:
        pipe.write(b"{")
        eventually_sync(lambda: pipe.is_empty() and is_blocked(reader), describe="it reads on")
        _thread.interrupt_main()
        if not has_ended.wait(LIMIT_SEC):
            is_lost.set()
        pipe.end()

    meanwhile(interrupt)
    with pytest.raises(KeyboardInterrupt):
        piped_text()
    has_ended.set()
    assert not is_lost.is_set()
