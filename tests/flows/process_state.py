"""Flows that change the state of their process, and one that returns that state."""

import faulthandler
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyoco import Flow
from pyoco.core.models import Task
from pyoco.dsl.syntax import TaskWrapper

from pyoco_server.worker.child.run_folder import RunFolder


def plain(name: str, function: Any, **options: Any) -> TaskWrapper:
    return TaskWrapper(Task(func=function, name=name, **options))


def leave(what: str) -> int:
    _LEFT[what]()
    return os.getpid()


def _soft_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))


def _raise(*_: object) -> None:
    raise InterruptedError("by a handler of an earlier run")


def _handled_timer() -> None:
    signal.signal(signal.SIGALRM, _raise)
    signal.setitimer(signal.ITIMER_REAL, 600, 1)


_LEFT: dict[str, Callable[[], object]] = {
    "nothing": lambda: None,
    "an alarm": lambda: signal.alarm(600),
    "a timer": lambda: signal.setitimer(signal.ITIMER_PROF, 600),
    "a timer and its handler": _handled_timer,
    "a traceback timer": lambda: faulthandler.dump_traceback_later(600, exit=True),
    "a handler": lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL),
    "an ignored signal": lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
    "a variable": lambda: os.environ.update(LEFT_BEHIND="by a run", HOME="/nowhere"),
    "no variable": lambda: os.environ.pop("PATH"),
    "a umask": lambda: os.umask(0o777),
    "a soft limit": _soft_limit,
    "a folder": lambda: os.chdir("/"),
    # These cannot be put back, or not without privileges.
    "a hard limit": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)),
    "a blocked signal": lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]),
    "a low priority": lambda: os.nice(1),
    "a closed descriptor": lambda: os.close(1),
    "another descriptor": lambda: os.dup2(os.open(os.devnull, os.O_WRONLY), 2),
    "a pipe of its own": lambda: os.dup2(os.pipe()[1], 1),
}


def state() -> dict[str, Any]:
    """All that a run must find as if it were the first one."""
    umask = os.umask(0)
    os.umask(umask)
    folder = Path.cwd()
    return {
        "timers": [signal.getitimer(timer) for timer in (0, 1, 2)],
        "handlers": [_name(signal.getsignal(number)) for number in sorted(signal.valid_signals())],
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        # Each executor has its own mark.
        "environment": {name: value for name, value in os.environ.items() if name != "PYOCO_EXECUTOR_MARK"},
        "umask": umask,
        "limits": [resource.getrlimit(limit) for limit in range(16)],
        "priority": os.getpriority(os.PRIO_PROCESS, 0),
        "folder": str(folder.parent),
        "threads": len(os.listdir("/proc/self/task")),
        "descriptors": [os.readlink(f"/proc/self/fd/{number}").partition(":")[0] for number in range(3)],
    }


def _name(handler: object) -> str:
    return str(getattr(handler, "__name__", handler))


def crash_with(files: list[str]) -> None:
    for name in files:
        Path(name).write_text("by a task")
    os.kill(os.getpid(), signal.SIGKILL)


def break_its_folder() -> int:
    def leave(self: RunFolder) -> bool:
        raise OSError("the file system does not answer")

    RunFolder.leave = leave  # type: ignore[method-assign]
    return os.getpid()


leaving_behind = Flow("leaving-behind") >> plain("leave", leave)
showing = Flow("showing") >> plain("state", state)
breaking_its_folder = Flow("breaking-its-folder") >> plain("break", break_its_folder)
crashing_in_folder = Flow("crashing-in-folder") >> plain("crash", crash_with)
