"""A full disk for one nats-server: a limit of the size of its files, which needs no rights."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_LIMIT: Final = resource.RLIMIT_FSIZE


def fill_disk(pid: int) -> None:
    """Every write of the process fails from now on, as on a full disk."""
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
