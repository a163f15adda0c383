"""A Ctrl-C that interrupts no call by itself."""

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyoco_server.cli.interrupts import blocking_calls_end_by_ctrl_c
from tests.support.waiting import LIMIT_SEC


@contextmanager
def ctrl_c_in_another_thread() -> Iterator[None]:
    """The process gets it once this thread is blocked, which it does not interrupt."""
    state = Path(f"/proc/self/task/{threading.get_native_id()}/stat")

    def send() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        while state.read_text().rpartition(")")[2].split()[0] != "S":
            pass
        os.kill(os.getpid(), signal.SIGINT)

    sending = threading.Thread(target=send)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        sending.start()
        yield
    finally:
        sending.join()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_ctrl_c_ends_a_blocking_call_that_it_has_not_interrupted() -> None:
    before = signal.getsignal(signal.SIGURG)
    reading, writing = socket.socketpair()
    with reading, writing:
        reading.settimeout(LIMIT_SEC)
        with pytest.raises(KeyboardInterrupt), blocking_calls_end_by_ctrl_c(), ctrl_c_in_another_thread():
            reading.recv(1)
    assert signal.getsignal(signal.SIGURG) is before
    assert not [thread for thread in threading.enumerate() if thread.name == "nudge"]


def test_ctrl_c_within_a_finalizer_is_not_lost() -> None:
    """Python reports the exceptions of finalizers, and goes on."""

    class Finalized:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    reading, writing = socket.socketpair()
    with reading, writing:
        reading.settimeout(LIMIT_SEC)
        with pytest.raises(KeyboardInterrupt), blocking_calls_end_by_ctrl_c():
            reading.recv(1 if Finalized() else 0)
