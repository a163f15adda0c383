"""A program on a pseudo-terminal: its output, and typed input."""

import fcntl
import os
import pty
import subprocess
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.support.forks.fork_server import ForkedProcess, fork_server
from tests.support.programs import environment
from tests.support.waiting import LIMIT_SEC, eventually_sync

CTRL_C = b"\x03"


class Terminal:
    def __init__(self, start: Callable[[int], subprocess.Popen[bytes] | ForkedProcess]) -> None:
        """`start` gets the terminal's end for the program."""
        self._outside, inside = pty.openpty()
        self.process = start(inside)
        os.close(inside)
        self._written = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def text(self) -> str:
        return self._written.decode(errors="replace")

    def shows(self, text: str) -> None:
        """Wait until the text is on it."""

        def shown() -> bool:
            assert text in self.text or self._reader.is_alive(), self.text
            return text in self.text

        eventually_sync(shown, describe=f"{text!r} on the terminal of {self.process.args!r}")

    def type(self, keys: bytes) -> None:
        os.write(self._outside, keys)

    def end(self) -> int:
        """The program's exit code, once it has ended and all it wrote is here."""
        code = self.process.wait(LIMIT_SEC)
        self._reader.join(LIMIT_SEC)
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.end()
        os.close(self._outside)

    def _read(self) -> None:
        try:
            while chunk := os.read(self._outside, 4096):
                self._written += chunk
        except OSError:  # how Linux says that nobody has the other end any more
            return


@contextmanager
def on_terminal(module: str, *arguments: str, cwd: Path | None = None, **settings: str) -> Iterator[Terminal]:
    """One of our programs (a fork, see fork_server.py)."""
    env = environment(TERM="xterm", **settings)

    def start(inside: int) -> ForkedProcess:
        return fork_server().start(
            module, *arguments, cwd=cwd, env=env, stdout=inside, stderr=inside, terminal=inside
        )

    with closing(Terminal(start)) as terminal:
        yield terminal


@contextmanager
def command_on_terminal(command: list[str], *, cwd: Path) -> Iterator[Terminal]:
    def start(inside: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            cwd=cwd,
            env=environment(TERM="xterm"),
            stdin=inside,
            stdout=inside,
            stderr=inside,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
        )

    with closing(Terminal(start)) as terminal:
        yield terminal
