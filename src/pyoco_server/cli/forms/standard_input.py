"""What is typed at a prompt or piped into a command, and Ctrl-C instead of it.

`input` and `sys.stdin.read` can miss a Ctrl-C: Python calls its signal handler when a blocking read is
interrupted, and a signal that arrives just before that read interrupts nothing. So this waits until either
the standard input or a descriptor that each signal is written to can be read.
"""

import io
import os
import select
import sys
from collections.abc import Iterator
from typing import Final

from pyoco_server.cli.interrupts import signal_descriptor
from pyoco_server.errors import InvalidCliArgument

_CHUNK_BYTES: Final = 64 * 1024


def typed_line(prompt: str) -> str:
    """The line that is typed after the prompt; EOFError for Ctrl-D, KeyboardInterrupt for Ctrl-C."""
    with signal_descriptor() as signals:
        sys.stderr.write(prompt)
        sys.stderr.flush()
        # Only a terminal: it hands out one line at a time, so that none is in a buffer, where `select` would
        # not see it. Handlers are called when `select` returns.
        while sys.stdin.isatty() and sys.stdin not in select.select([sys.stdin, signals], [], [])[0]:
            os.read(signals, 1)
        line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.removesuffix("\n")


def piped_text() -> str:
    """The whole standard input; KeyboardInterrupt for Ctrl-C, InvalidCliArgument if it is not UTF-8."""
    return _decoded(b"".join(_chunks()))


def piped_line() -> str:
    """The first line of the standard input, which may be typed; what follows it is lost."""
    line = b""
    for chunk in _chunks():
        line += chunk
        if b"\n" in chunk:
            break
    return _decoded(line.partition(b"\n")[0])


def _chunks() -> Iterator[bytes]:
    """Parts of the standard input up to its end."""
    with signal_descriptor() as signals:
        while True:
            # Handlers are called when `select` returns.
            ready, _, _ = select.select([sys.stdin, signals], [], [])
            if signals in ready:
                os.read(signals, 1)
            elif chunk := os.read(sys.stdin.fileno(), _CHUNK_BYTES):
                yield chunk
            else:
                return


def _decoded(data: bytes) -> str:
    try:
        # Not as `sys.stdin` decodes: in the locale of most containers it accepts any bytes.
        return io.TextIOWrapper(io.BytesIO(data), encoding="utf-8-sig").read()
    except UnicodeDecodeError as error:
        raise InvalidCliArgument(f"the standard input is not UTF-8 text: {error}") from None
