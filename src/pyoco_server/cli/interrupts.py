"""Ctrl-C while a command is blocked.

Python calls its signal handler when a blocking call is interrupted, and a signal that arrives just before the
call interrupts nothing: a command that waits for a run would wait on. The numbers of signals can also be read
from a descriptor, by which such a call is noticed. Besides, Python ignores the KeyboardInterrupt of a handler
that it calls within a finalizer or the callback of a weak reference.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

# Any signal that nothing else of a command uses; its handler does nothing.
_NUDGE: Final = signal.SIGURG
_NUDGE_EVERY_SEC: Final = 0.05
_NUDGES: Final = 40


@contextmanager
def signal_descriptor() -> Iterator[int]:
    """A descriptor from which the number of each signal can be read that Python has a handler for."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    previous = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield reading
    finally:
        signal.set_wakeup_fd(previous)
        os.close(writing)
        os.close(reading)


@contextmanager
def blocking_calls_end_by_ctrl_c() -> Iterator[None]:
    """Within it, no Ctrl-C is lost. Only in the main thread."""
    over, ignored, nudging = threading.Event(), threading.Event(), list[threading.Thread]()
    previous, report = signal.signal(_NUDGE, lambda *_: None), sys.unraisablehook

    def notice(unraisable: "sys.UnraisableHookArgs") -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            ignored.set()
        else:
            report(unraisable)

    sys.unraisablehook = notice
    try:
        with signal_descriptor() as signals:
            arguments = (os.dup(signals), over, ignored)
            thread = threading.Thread(target=_nudge, args=arguments, name="nudge", daemon=True)
            thread.start()
            nudging.append(thread)
            try:
                yield
            finally:
                over.set()
    finally:
        # It has reached the end of its descriptor.
        for thread in nudging:
            thread.join()
        sys.unraisablehook = report
        signal.signal(_NUDGE, previous)


def _nudge(signals: int, over: threading.Event, ignored: threading.Event) -> None:
    main = threading.main_thread().ident
    assert main is not None
    with open(signals, "rb", buffering=0) as numbers:
        while number := numbers.read(1):
            if number[0] != signal.SIGINT:
                continue
            for _ in range(_NUDGES):
                if over.wait(_NUDGE_EVERY_SEC):
                    break
                again = ignored.is_set()
                ignored.clear()
                signal.pthread_kill(main, signal.SIGINT if again else _NUDGE)
