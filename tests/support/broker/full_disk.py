"""A full disk for one nats-server."""

import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_LIMIT: Final = resource.RLIMIT_FSIZE
_SIZE_BYTES: Final = 8 * 1024**3
_MARGIN_BYTES: Final = 256 * 1024


def fill_disk(pid: int) -> None:
    """Every write of the process fails from now on, as on a full disk; this needs no rights."""
    resource.prlimit(pid, _LIMIT, (1, resource.RLIM_INFINITY))


def free_disk(pid: int) -> None:
    resource.prlimit(pid, _LIMIT, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@contextmanager
def disk_full(pid: int) -> Iterator[None]:
    fill_disk(pid)
    try:
        yield
    finally:
        free_disk(pid)


class OwnFileSystem:
    """One in memory, at the folder: shrunk to what it holds, it is full. Only root may mount one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True)
        self.mounted = _mount(folder, f"size={_SIZE_BYTES}")

    @contextmanager
    def full(self, pid: int) -> Iterator[None]:
        """Without a file system of its own, the process has a limit of the size of its files."""
        if not self.mounted:
            with disk_full(pid):
                yield
            return
        disk = os.statvfs(self._folder)
        used = (disk.f_blocks - disk.f_bfree) * disk.f_frsize
        assert _mount(self._folder, f"remount,size={used + _MARGIN_BYTES}"), "cannot shrink the file system"
        try:
            yield
        finally:
            assert _mount(self._folder, f"remount,size={_SIZE_BYTES}"), "cannot enlarge the file system"

    def unmount(self) -> None:
        """The files stay in the folder."""
        if not self.mounted:
            return
        copy = self._folder.with_name(f"{self._folder.name}-copy")
        shutil.copytree(self._folder, copy)
        subprocess.run(["umount", str(self._folder)], check=True)
        self._folder.rmdir()
        copy.rename(self._folder)


def _mount(folder: Path, options: str) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    return (
        shutil.which("mount") is not None
        and not subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode
    )
