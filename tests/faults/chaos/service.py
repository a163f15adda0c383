"""A gateway or worker process that can be killed, paused and restarted."""

import asyncio
import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.forks.fork_server import ForkedProcess, fork_server
from tests.support.processes import executors_of
from tests.support.waiting import LIMIT_SEC, eventually_sync

_START_LIMIT_SEC = LIMIT_SEC


class Service:
    """A gateway or a worker. Its log file is kept over restarts."""

    def __init__(self, name: str, module: str, *arguments: str, folder: Path, env: Mapping[str, str]) -> None:
        self.name = name
        self.arguments = list(arguments)
        self._module = module
        self._folder = folder
        self._env = env
        self._process: ForkedProcess | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} was not started"
        return self._process.pid

    async def start(self) -> dict[str, Any]:
        """Start it, and return what it reports when it is ready."""
        reading, writing = os.pipe()
        log_path = self._folder / f"{self.name}.log"
        with log_path.open("ab") as log:
            self._process = fork_server().start(
                self._module,
                *self.arguments,
                "--ready-fd",
                str(writing),
                cwd=self._folder,
                env=self._env,
                stdout=log.fileno(),
                stderr=log.fileno(),
                pass_fds=(writing,),
                # The executors that are killed are those of production.
                forks_executors=False,
            )
        os.close(writing)
        with os.fdopen(reading) as announcement:
            async with asyncio.timeout(_START_LIMIT_SEC):
                line = await asyncio.to_thread(announcement.readline)
        assert line, f"{self.name} ended with {self._process.wait()}: {log_path.read_text()[-2000:]}"
        facts: dict[str, Any] = json.loads(line)
        return facts

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    async def killed_itself(self) -> None:
        """Return when it has."""
        assert self._process is not None, f"{self.name} was not started"
        code = await asyncio.to_thread(self._process.wait, _START_LIMIT_SEC)
        assert code == -signal.SIGKILL, f"{self.name} ended with {code}"

    def pause(self) -> None:
        """Stop all its threads, and return when they have."""
        os.kill(self.pid, signal.SIGSTOP)
        stat = Path(f"/proc/{self.pid}/stat")
        eventually_sync(
            lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", describe=f"{self.name} is stopped"
        )

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def executors(self) -> list[int]:
        """The processes in which this worker runs flows."""
        return executors_of(self.pid)
