"""CPU and memory of a worker with all processes of its runs, and of its host, from /proc.

Other systems than Linux report only what Python knows of the host.
"""

import os
import platform
import socket
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyoco_server.records.workers.worker_models import WorkerHost, WorkerUsage

_PROC: Final = Path("/proc")
_KIB: Final = 1024
# The resident pages, counted from the state of the process on.
_LAST_FIELD: Final = 21


def this_host(proc: Path = _PROC) -> WorkerHost:
    return WorkerHost(
        name=socket.gethostname(),
        system=f"{platform.system()} {platform.machine()}".strip(),
        python=platform.python_version(),
        cpus=os.cpu_count() or 1,
        memory_bytes=_memory(proc).get("MemTotal"),
    )


class UsageMeter:
    """Measures the use between two calls; blocking, for one thread at a time."""

    def __init__(self, *, proc: Path = _PROC, pid: int | None = None) -> None:
        self._proc = proc
        self._pid = os.getpid() if pid is None else pid
        self._ticks_per_sec = os.sysconf("SC_CLK_TCK")
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        # Of the last call: its time by the monotonic clock, and the ticks until then.
        self._measured_at: float | None = None
        self._own_ticks = 0
        self._host_ticks = _HostTicks(0, 0)

    def measure(self) -> WorkerUsage:
        """What the system does not report, and CPU use before the second call, is None."""
        now = time.monotonic()
        tree = self._tree()
        own_ticks, host_ticks = sum(each.ticks for each in tree), self._read_host_ticks()
        cpu_cores = host_cpu = None
        if self._measured_at is not None and now > self._measured_at:
            # An orphaned process takes its ticks along.
            ticks = max(0, own_ticks - self._own_ticks)
            cpu_cores = round(ticks / self._ticks_per_sec / (now - self._measured_at), 3) if tree else None
            host_cpu = host_ticks.busy_since(self._host_ticks)
        self._measured_at, self._own_ticks, self._host_ticks = now, own_ticks, host_ticks
        memory = _memory(self._proc)
        total, available = memory.get("MemTotal"), memory.get("MemAvailable")
        return WorkerUsage(
            at=time.time(),
            processes=len(tree),
            cpu_cores=cpu_cores,
            memory_bytes=sum(each.pages for each in tree) * self._page_bytes if tree else None,
            host_cpu=host_cpu,
            host_memory_bytes=None if total is None or available is None else max(0, total - available),
        )

    def _tree(self) -> list["_Process"]:
        """This process and its descendants."""
        children: dict[int, list[_Process]] = defaultdict(list)
        found: list[_Process] = []
        for process in self._processes():
            children[process.parent].append(process)
            if process.pid == self._pid:
                found.append(process)
        for process in found:
            found += children.pop(process.pid, [])
        return found

    def _processes(self) -> list["_Process"]:
        try:
            names = os.listdir(self._proc)
        except OSError:
            return []
        read = (_process(self._proc, name) for name in names if name.isdigit())
        return [process for process in read if process is not None]

    def _read_host_ticks(self) -> "_HostTicks":
        try:
            first, _, _ = (self._proc / "stat").read_text().partition("\n")
        except OSError:
            return _HostTicks(0, 0)
        # user nice system idle iowait irq softirq steal; those of guests are in user and nice.
        ticks = [int(number) for number in first.split()[1:9]]
        return _HostTicks(total=sum(ticks), idle=sum(ticks[3:5]))


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    parent: int
    # Its own, and those of its children that have ended.
    ticks: int
    pages: int


@dataclass(frozen=True, slots=True)
class _HostTicks:
    total: int
    idle: int

    def busy_since(self, earlier: "_HostTicks") -> float | None:
        """The share of all cores that was busy since then."""
        passed = self.total - earlier.total
        if passed <= 0:
            return None
        return round(min(1.0, max(0.0, 1 - (self.idle - earlier.idle) / passed)), 3)


def _process(proc: Path, pid: str) -> _Process | None:
    """None if it has ended, or is hidden."""
    try:
        # There may be thousands: without a buffer and a decoder it takes half the time.
        with open(f"{proc}/{pid}/stat", "rb", buffering=0) as file:
            text = file.read()
    except OSError:
        return None
    # The name of the program may have spaces and parentheses.
    fields = text.rpartition(b")")[2].split(None, _LAST_FIELD + 1)
    return _Process(int(pid), int(fields[1]), sum(map(int, fields[11:15])), int(fields[_LAST_FIELD]))


def _memory(proc: Path) -> dict[str, int]:
    """The lines of /proc/meminfo, in bytes."""
    try:
        lines = (proc / "meminfo").read_text().splitlines()
    except OSError:
        return {}
    rows = (line.split() for line in lines)
    return {row[0].rstrip(":"): int(row[1]) * _KIB for row in rows if len(row) > 1}
