"""Processes of the benchmark: started with a log, ended with their children, and their CPU and memory."""

import asyncio
import os
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_PATIENCE_SEC = 10.0
_LINE_LIMIT = 2**25  # a driver's response is one line with the latencies of a long load
_POLL_SEC = 0.02
_TICKS_PER_SEC = os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def running(
    command: Iterable[str],
    *,
    log: Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    piped: bool = False,
) -> AsyncIterator[Process]:
    """A process in its own session: Ctrl-C does not reach it, and its children can be ended with it."""
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *command,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            stdin=PIPE if piped else asyncio.subprocess.DEVNULL,
            stdout=PIPE if piped else output,
            stderr=output,
            start_new_session=True,
            limit=_LINE_LIMIT,
        )
    try:
        yield process
    finally:
        await _end(process)


async def _end(process: Process) -> None:
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(_PATIENCE_SEC):
            await process.wait()
    except TimeoutError:
        print(f"process {process.pid} does not end by itself and is killed", file=sys.stderr)
    with suppress(ProcessLookupError):  # nothing of its session is left
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


async def until_listening(port: int, limit_sec: float = 20.0) -> None:
    async with asyncio.timeout(limit_sec):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(_POLL_SEC)
            else:
                writer.close()
                return


@dataclass(frozen=True)
class MemoryUse:
    """Memory of a part of a peer, in MB, by the kernel's own count."""

    main_mb: float  # resident memory of its process; of the largest, where it has several
    child_mb: float  # resident memory of the largest process that these have started; 0 without one
    total_mb: float  # all of them together, what they share counted once


def memory_use(pids: list[int]) -> MemoryUse:
    children = [child for pid in pids for child in descendants(pid)]
    return MemoryUse(
        main_mb=max(_status_mb(pid, "status", "VmRSS:") for pid in pids),
        child_mb=max((_status_mb(pid, "status", "VmRSS:") for pid in children), default=0.0),
        total_mb=sum(_status_mb(pid, "smaps_rollup", "Pss:") for pid in [*pids, *children]),
    )


def cpu_seconds(pids: list[int]) -> float:
    """CPU time so far of the processes and all they have started."""
    return sum(_cpu_seconds(pid) for root in pids for pid in [root, *descendants(root)])


def exact_cpu_seconds(pid: int) -> float:
    """CPU time so far of the threads that a process has now, to the nanosecond: for a short while of it."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def descendants(pid: int) -> list[int]:
    """Processes that this one has started, and those that they have."""
    found: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (thread / "children").read_text().split()):
                found += [child, *descendants(child)]
    return found


def _status_mb(pid: int, file: str, field: str) -> float:
    with suppress(FileNotFoundError, ProcessLookupError):  # it has ended: nothing is resident
        for line in Path(f"/proc/{pid}/{file}").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) / 1024
    return 0.0


def _cpu_seconds(pid: int) -> float:
    with suppress(FileNotFoundError, ProcessLookupError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / _TICKS_PER_SEC  # its own, and that of children that have ended
    return 0.0
