"""The most memory that a program has had, as the kernel counts it."""

from pathlib import Path
from typing import Final

IS_COUNTED: Final = Path("/proc/self/clear_refs").exists()


class MemoryPeak:
    """How far the memory of a process has grown since this was made, at most."""

    def __init__(self, pid: int) -> None:
        self._process = Path(f"/proc/{pid}")
        # Sets the peak back to what it has now.
        (self._process / "clear_refs").write_text("5")
        self._before = self._read("VmRSS")

    def growth_mib(self) -> float:
        return self._read("VmHWM") - self._before

    def _read(self, name: str) -> float:
        lines = (self._process / "status").read_text().splitlines()
        [found] = [line for line in lines if line.startswith(f"{name}:")]
        return int(found.split()[1]) / 1024
