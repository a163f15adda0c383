"""Memory that a gateway has freed is returned to the system."""

import subprocess
import sys

import pytest

from pyoco_server.aio.freed_memory import FreedMemory

# Every thousandth value stays, so that the heap cannot shrink at its end.
_PROGRAM = """
from pathlib import Path
from pyoco_server.aio.freed_memory import return_freed_memory

def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

values = [bytes(2000) for _ in range(50_000)]
kept = values[::1000]
del values
before = resident()
return_freed_memory()
print(before - resident())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do it by themselves")
def test_freed_memory_is_returned() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 50_000_000


async def test_it_is_repeated() -> None:
    assert await FreedMemory().run_due(1000.0) > 1000.0


async def test_caches_are_freed_first() -> None:
    freed: list[str] = []

    async def free() -> None:
        freed.append("pages")

    await FreedMemory([free]).run_due(1000.0)
    assert freed == ["pages"]
