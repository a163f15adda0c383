"""A line typed at a prompt, and Ctrl-C instead of it.

`input` can miss a Ctrl-C: Python calls its signal handler when a blocking read is interrupted, and a signal
that arrives between the output of the prompt and that read interrupts nothing. So this waits until either the
terminal or a descriptor that each signal is written to can be read.
"""

import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager


def typed_line(prompt: str) -> str:
    """The line that is typed after the prompt; EOFError for Ctrl-D, KeyboardInterrupt for Ctrl-C."""
    with _signal_descriptor() as signals:
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


@contextmanager
def _signal_descriptor() -> Iterator[int]:
    """A descriptor that can be read once a signal has arrived that Python has a handler for."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    previous = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield reading
    finally:
        signal.set_wakeup_fd(previous)
        os.close(reading)
        os.close(writing)
