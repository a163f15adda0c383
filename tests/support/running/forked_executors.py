"""Executor processes that are forked from a process which has imported their code (see fork_server.py).

A worker of a test starts them in place of new interpreters. They are real children of the test process; only
the imports are saved, which are nearly all of what a start costs.
"""

import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pyoco_server.worker.executors import child_process
from tests.support.fork_server import fork_server


class ForkedExecutor:
    """The part of `asyncio.subprocess.Process` that a worker uses."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._loop = asyncio.get_running_loop()
        self._exit: asyncio.Future[int] = self._loop.create_future()
        self._exit_event = os.pidfd_open(pid)
        self._loop.add_reader(self._exit_event, self._on_exit)

    async def wait(self) -> int:
        return await asyncio.shield(self._exit)

    def _on_exit(self) -> None:
        self._loop.remove_reader(self._exit_event)
        os.close(self._exit_event)
        _, status = os.waitpid(self.pid, 0)
        self.returncode = os.waitstatus_to_exitcode(status)
        self._exit.set_result(self.returncode)


async def _fork_executor(
    _: str, __: str, module: str, *arguments: str, pass_fds: Sequence[int], env: dict[str, str], **files: Any
) -> ForkedExecutor:
    """In place of `asyncio.create_subprocess_exec(python, "-m", module, ...)`."""
    pid = fork_server().start_child(
        module, *arguments, env=env, stdout=files["stdout"], stderr=files["stderr"], pass_fds=pass_fds
    )
    return ForkedExecutor(pid)


@contextmanager
def forked_executors() -> Iterator[None]:
    real = child_process.create_subprocess_exec
    child_process.create_subprocess_exec = _fork_executor  # type: ignore[assignment]
    yield
    child_process.create_subprocess_exec = real
