"""Restores process-wide state after each run: timers, signal handlers, environment, umask, soft limits.

If something cannot be restored, the executor is replaced. Globals of modules are not restored, not even those
of the standard library: they are part of the code that the runs of one tenant share (renewable_executor.py).
"""

import faulthandler
import os
import resource
import signal
import sys
import threading
from fcntl import F_GETFD, fcntl

# Compared after each run: the public forms convert every value, and take many times as long.
_variables = getattr(os.environ, "_data", os.environ)
_handler_of = getattr(sys.modules.get("_signal"), "getsignal", signal.getsignal)
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_SIGNALS = (
    signal.SIGALRM,
    signal.SIGCHLD,
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGPIPE,
    signal.SIGPROF,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGVTALRM,
    signal.SIGXCPU,
)
_LIMITS = (
    resource.RLIMIT_AS,
    resource.RLIMIT_CPU,
    resource.RLIMIT_DATA,
    resource.RLIMIT_FSIZE,
    resource.RLIMIT_NOFILE,
    resource.RLIMIT_NPROC,
)


class ProcessState:
    """The state before the first run; captured and restored on the main thread."""

    def __init__(self) -> None:
        self._threads = threading.active_count()
        self._streams = (sys.stdout, sys.stderr)
        self._descriptors = _standard_descriptors()
        self._variables = dict(_variables)
        self._environment = os.environ.copy()
        self._umask = os.umask(0o077)
        os.umask(self._umask)
        self._handlers = list(map(_handler_of, _SIGNALS))
        self._blocked = _blocked_signals()
        self._limits = list(map(resource.getrlimit, _LIMITS))
        self._priority = _priority()

    def restore(self) -> bool:
        """Restore what the last run changed; False if something cannot be restored."""
        # First: a timer that fires later would end this process, or raise in the next run.
        _stop_timers()
        os.umask(self._umask)
        if _variables != self._variables:
            os.environ.clear()
            os.environ.update(self._environment)
        return (
            self._are_streams_intact()
            and threading.active_count() == self._threads
            # Not restored: a pending signal would be delivered.
            and _blocked_signals() == self._blocked
            and _priority() == self._priority
            and self._restore_handlers()
            and self._restore_limits()
        )

    def _are_streams_intact(self) -> bool:
        if (sys.stdout, sys.stderr) != self._streams or sys.stdout.closed or sys.stderr.closed:
            return False
        try:
            return _standard_descriptors() == self._descriptors
        except OSError:
            # Closed: the next file that is opened would get its number.
            return False

    def _restore_handlers(self) -> bool:
        if list(map(_handler_of, _SIGNALS)) == self._handlers:
            return True
        for number, handler in zip(_SIGNALS, self._handlers, strict=True):
            if _handler_of(number) == handler:
                continue
            if handler is None:
                # Only native code could set this handler again.
                return False
            signal.signal(number, handler)
        return True

    def _restore_limits(self) -> bool:
        if list(map(resource.getrlimit, _LIMITS)) == self._limits:
            return True
        for limit, value in zip(_LIMITS, self._limits, strict=True):
            if resource.getrlimit(limit) == value:
                continue
            try:
                resource.setrlimit(limit, value)
            except (OSError, ValueError):
                # The hard limit was lowered, which cannot be undone.
                return False
        return True


def _stop_timers() -> None:
    for timer in _TIMERS:
        if signal.getitimer(timer)[0]:
            signal.setitimer(timer, 0)
    faulthandler.cancel_dump_traceback_later()


def _standard_descriptors() -> tuple[int, ...]:
    """The identity of the worker's pipes; OSError if one is closed."""
    out, err = os.fstat(1), os.fstat(2)
    return fcntl(0, F_GETFD), out.st_dev, out.st_ino, err.st_dev, err.st_ino


def _blocked_signals() -> set[int | signal.Signals]:
    return signal.pthread_sigmask(signal.SIG_BLOCK, ())


def _priority() -> int:
    return os.getpriority(os.PRIO_PROCESS, 0)
