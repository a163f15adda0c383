"""The start and the exit of an executor process, with everything that its tasks have started."""

import asyncio
import logging
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, Process, create_subprocess_exec
from contextlib import suppress

from pyoco_server.aio.marked_processes import MARK_VARIABLE, kill_marked
from pyoco_server.config.process_isolation import environment_without_secrets
from pyoco_server.worker.executors.executor_template import UNKNOWN_EXIT_CODE, ExecutorTemplate, ForkedProcess
from pyoco_server.worker.executors.stdio_pipes import StdioPipes
from pyoco_server.worker.ipc.pipes import DeathPipe

log = logging.getLogger(__name__)


async def start_process(
    template: ExecutorTemplate | None, sockets: list[int], pipes: StdioPipes, death: DeathPipe, mark: str
) -> Process | ForkedProcess:
    inherited = [*sockets, *pipes.read_ends, death.read_end]
    try:
        if template is not None:
            return await template.start_executor(inherited, pipes.write_ends, mark)
        return await create_subprocess_exec(
            sys.executable,
            "-m",
            "pyoco_server.worker.child.executor_main",
            *(str(descriptor) for descriptor in inherited),
            pass_fds=inherited,
            stdin=DEVNULL,
            stdout=pipes.write_ends[0],
            stderr=pipes.write_ends[1],
            start_new_session=True,
            env=environment_without_secrets() | {MARK_VARIABLE: mark},
        )
    finally:
        pipes.close_executor_ends()
        death.close_read_end()


def has_exited(process: Process | ForkedProcess) -> bool:
    if isinstance(process, ForkedProcess):
        return process.has_exited()
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


async def kill_rest_at_exit(process: Process | ForkedProcess, mark: str) -> int:
    """Wait for its exit, and kill everything that its tasks have started. Returns its exit code.

    The id of a process group in use is not assigned again; if the group is empty, a small race is left.
    """
    code = await process.wait()
    kill_group(process.pid)
    if killed := await asyncio.to_thread(kill_marked, mark):
        log.info("killed %d processes that a task had detached from its executor", killed)
    return code


def how_ended(code: int) -> str:
    if code == UNKNOWN_EXIT_CODE:
        return "has exited with an unknown status: the template process that started it has exited as well"
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"


def kill_group(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
