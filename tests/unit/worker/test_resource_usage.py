"""CPU and memory of a worker's processes and of its host, from files like those of /proc."""

import os
import socket
from pathlib import Path

import pytest

from pyoco_server.worker.session.resource_usage import UsageMeter, this_host

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def has_process(proc: Path, pid: int, *, parent: int, ticks: int = 0, ended: int = 0, pages: int = 0) -> None:
    (proc / str(pid)).mkdir(exist_ok=True)
    fields = ["0"] * 50
    fields[0], fields[1] = "S", str(parent)
    # utime, and cutime of children that have ended.
    fields[11], fields[13], fields[21] = str(ticks), str(ended), str(pages)
    (proc / str(pid) / "stat").write_text(f"{pid} (a (strange) name) {' '.join(fields)}\n")


def has_host(proc: Path, *, busy: int, idle: int) -> None:
    (proc / "stat").write_text(f"cpu  {busy} 0 0 {idle} 0 0 0 0 0 0\ncpu0 1 2 3\n")


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    (tmp_path / "meminfo").write_text("MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable:  400 kB\n")
    has_host(tmp_path, busy=0, idle=0)
    return tmp_path


def test_all_descendants_of_the_worker_are_counted_and_nothing_else(proc: Path) -> None:
    has_process(proc, 10, parent=1, pages=5)
    has_process(proc, 11, parent=10, pages=7)
    has_process(proc, 12, parent=11, pages=9)
    has_process(proc, 99, parent=1, pages=1000)
    usage = UsageMeter(proc=proc, pid=10).measure()
    assert (usage.processes, usage.memory_bytes) == (3, 21 * PAGE)


def test_cpu_use_is_known_from_the_second_measurement_on(proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("pyoco_server.worker.session.resource_usage.time.monotonic", lambda: now)
    has_process(proc, 10, parent=1, ticks=5 * TICKS)
    has_process(proc, 11, parent=10, ticks=2 * TICKS)
    meter = UsageMeter(proc=proc, pid=10)
    assert meter.measure().cpu_cores is None
    # 11 has ended: its time is in that of its parent.
    (proc / "11" / "stat").unlink()
    has_process(proc, 10, parent=1, ticks=8 * TICKS, ended=4 * TICKS)
    has_host(proc, busy=300, idle=100)
    now = 110.0
    usage = meter.measure()
    assert (usage.cpu_cores, usage.host_cpu) == (0.5, 0.75)


def test_memory_of_the_host_is_what_is_not_available(proc: Path) -> None:
    has_process(proc, 10, parent=1)
    assert UsageMeter(proc=proc, pid=10).measure().host_memory_bytes == 600 * 1024
    assert this_host(proc).memory_bytes == 1000 * 1024


def test_a_system_without_proc_reports_what_python_knows(tmp_path: Path) -> None:
    meter = UsageMeter(proc=tmp_path / "nothing")
    for _ in range(2):
        usage = meter.measure()
        assert (usage.processes, usage.memory_bytes, usage.cpu_cores) == (0, None, None)
        assert (usage.host_cpu, usage.host_memory_bytes) == (None, None)
    host = this_host(tmp_path / "nothing")
    assert (host.name, host.memory_bytes) == (socket.gethostname(), None)
    assert host.cpus >= 1
