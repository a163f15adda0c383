"""Lines typed at a prompt of a command, and Ctrl-C or Ctrl-D instead of them."""

import _thread
import os
import pty
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from pathlib import Path

import pytest
import typer

from pyoco_server.cli.forms.dialogue import TerminalDialogue
from tests.support.waiting import LIMIT_SEC, eventually_sync

CTRL_D = b"\x04"


class Keyboard:
    def __init__(self) -> None:
        self._outside, inside = pty.openpty()
        self.terminal = open(inside, encoding="utf-8")  # noqa: SIM115
        self._prompted = Path(f"/proc/self/task/{threading.get_native_id()}/stat")

    def type(self, keys: bytes) -> None:
        os.write(self._outside, keys)

    def is_awaited(self) -> bool:
        """Whether the thread that this was made in is blocked."""
        return self._prompted.read_text().rpartition(")")[2].split()[0] == "S"

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
