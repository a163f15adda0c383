"""The template of executor processes: it has imported what every executor needs, and forks one on request.

It has one thread, no code of users and no secrets. It forks until its worker closes the socket. For the other
side of the protocol see `worker/executors/executor_template.py`.
"""

import ctypes
import gc
import json
import os
import signal
import socket
import sys
import threading
from typing import Any, Final

from pyoco_server.config.process_isolation import close_other_descriptors, hide_process, show_process
from pyoco_server.worker.child import executor_main

# The name of an executor in `ps` and `top`; its command line is that of the template.
EXECUTOR_NAME: Final = "pyoco-executor"

_MAX_REQUEST: Final = 1 << 20
# The descriptors of stdout and stderr, then those of the executor.
_DESCRIPTORS: Final = 8
_PR_SET_NAME: Final = 15
# Counted from the field after the name of the command.
_ENV_START_FIELD: Final = 47


def main() -> None:
    # On a signal to the whole service the worker drains its runs.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    control = socket.socket(fileno=int(sys.argv[1]))
    close_other_descriptors([control.fileno()])
    if "hidden" in sys.argv[2:]:
        # Otherwise a task could change the executors of other tenants through it.
        hide_process()
    assert threading.active_count() == 1, "a process with threads cannot be forked"
    gc.collect()
    # A collection in a fork would copy the memory that it shares with the template.
    gc.freeze()
    executor = _serve(control)
    if executor is not None:
        _become_executor(*executor)


def _serve(control: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Handle requests. Returns in each fork, with its request and descriptors, and at the end with None."""
    exit_codes: dict[int, int] = {}
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, _MAX_REQUEST, _DESCRIPTORS)
        if not message:
            return None
        _collect_exited(exit_codes)
        request = json.loads(message)
        if "exited" in request:
            reply = exit_codes.pop(request["exited"], None)
        else:
            reply = os.fork()
            if reply == 0:
                control.close()
                return request, descriptors
            for descriptor in descriptors:
                os.close(descriptor)
        control.send(json.dumps(reply).encode())


def _collect_exited(exit_codes: dict[int, int]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        exit_codes[pid] = os.waitstatus_to_exitcode(status)


def _become_executor(request: dict[str, Any], descriptors: list[int]) -> None:
    os.setsid()
    for descriptor, target in zip(descriptors[:2], (1, 2), strict=True):
        os.dup2(descriptor, target)
        os.close(descriptor)
    show_process()
    ctypes.CDLL(None).prctl(_PR_SET_NAME, EXECUTOR_NAME.encode(), 0, 0, 0)
    mark_variable, mark = request["mark"]
    _set_initial_variable(mark_variable, mark)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.environ[mark_variable] = mark
    if request["folder"] is not None:
        os.chdir(request["folder"])
    executor_main.run(descriptors[2:])


def _set_initial_variable(name: str, value: str) -> None:
    """Replace a variable of the same length in the initial environment, which other processes read in /proc.

    The worker finds by it the processes that a task has forked without an exec.
    """
    with open("/proc/self/stat", encoding="utf-8", errors="replace") as stat:
        fields = stat.read().rpartition(")")[2].split()
    start, end = (int(field) for field in fields[_ENV_START_FIELD : _ENV_START_FIELD + 2])
    prefix = f"{name}=".encode()
    at = ctypes.string_at(start, end - start).find(prefix)
    if at >= 0:
        ctypes.memmove(start + at + len(prefix), value.encode(), len(value))


if __name__ == "__main__":
    main()
