"""The guard of the embedded server: nats-server never outlives the program that started it.

This file runs as a script. It forks the guard and then becomes nats-server by exec, so that the server is
a direct child of its program (its pid, its exit code, its signals) and the guard is a child of the server:

    program  ──▶  nats-server  ──▶  guard
       └──────── lifeline ────────────┘

However a program ends, SIGKILL included, the kernel closes its end of the lifeline, and the guard reads the
end of file, on every POSIX system. Linux's PR_SET_PDEATHSIG is no alternative: it is bound to the *thread*
that started the server, and needs code between fork and exec of a threaded program.

The guard never signals another process: the server has the only write end of a second pipe, so an end of file
there shows that the server has ended, even if its process id is used again.
"""

import contextlib
import os
import select
import signal
import sys
from collections.abc import Sequence

_BATCH = "batch"


def guarded_command(
    command: Sequence[str],
    *,
    lifeline: int,
    kept: Sequence[int] = (),
    grace_sec: float = 10.0,
    as_batch: bool = False,
) -> list[str]:
    """The command line that starts `command` with a guard.

    `lifeline` is the read end of a pipe whose write end only the caller has; `kept` are descriptors that only
    the server keeps open until it ends. All of them must be passed to the process (`pass_fds`). The guard
    waits `grace_sec` between SIGTERM and SIGKILL; `as_batch` sets the batch scheduling policy.
    """
    descriptors = ",".join(str(descriptor) for descriptor in kept)
    isolated = ["-I", "-S"]  # nothing but the standard library: the guard is up in milliseconds
    policy = _BATCH if as_batch else ""
    return [sys.executable, *isolated, __file__, str(lifeline), descriptors, str(grace_sec), policy, *command]


def main(arguments: Sequence[str]) -> None:
    lifeline, grace_sec, command = int(arguments[0]), float(arguments[2]), list(arguments[4:])
    kept = [int(descriptor) for descriptor in arguments[1].split(",") if descriptor]
    server_pid = os.getpid()
    server_ended, held_by_server = os.pipe()
    if os.fork() == 0:
        for descriptor in (held_by_server, *kept):
            os.close(descriptor)
        _guard(server_pid, lifeline, server_ended, grace_sec)
        return
    os.close(lifeline)
    os.set_inheritable(held_by_server, True)
    if arguments[3] == _BATCH:
        _use_batch_scheduling()
    try:
        os.execv(command[0], command)  # noqa: S606 - our own command, no shell wanted
    except OSError as error:
        sys.exit(f"cannot run {command[0]}: {error.strerror}")


def _use_batch_scheduling() -> None:
    """Keep the server, woken by a message, from preempting the running process, mostly its own client.

    It then finds many messages at once instead of one. A fifth of the CPU time of short runs was spent on
    such context switches; where a core is free, nothing waits. Linux only.
    """
    if not hasattr(os, "SCHED_BATCH"):
        return
    try:
        if os.sched_getscheduler(0) == os.SCHED_OTHER:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    except OSError as error:
        # A sandbox may forbid it, and musl does not have it.
        sys.stderr.write(f"the server runs with the default scheduling policy: {error.strerror}\n")


def _hide_process() -> None:
    """As config/process_isolation.py does, which cannot be imported here: the environment has secrets."""
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415 - after the fork, so that the server does not wait for it

        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)


def _guard(server_pid: int, lifeline: int, server_ended: int, grace_sec: float) -> None:
    _hide_process()
    first, _, _ = select.select([lifeline, server_ended], [], [])
    if server_ended in first:
        return
    with contextlib.suppress(ProcessLookupError):  # it may end by itself at this very moment
        os.kill(server_pid, signal.SIGTERM)
        ended, _, _ = select.select([server_ended], [], [], grace_sec)
        if not ended:
            os.kill(server_pid, signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])
