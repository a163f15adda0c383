"""Keeps the secrets of a process from the processes it starts, and from others of the same user."""

import os
import sys
from collections.abc import Collection
from contextlib import suppress
from typing import Final

from pyoco_server.config.settings_table import SETTINGS

_PR_SET_DUMPABLE: Final = 4
_STANDARD: Final = frozenset({0, 1, 2})
# Addresses may contain a password or a token.
_ADDRESSES: Final = frozenset({"PYOCO_NATS_URL", "PYOCO_NOTIFY_URL"})


def environment_without_secrets() -> dict[str, str]:
    """For a child process: a flow.yaml may read any variable (`$env.X`) into the run's record."""
    secrets = {setting.name for setting in SETTINGS if setting.secret} | _ADDRESSES
    return {name: value for name, value in os.environ.items() if name not in secrets}


def close_other_descriptors(kept: Collection[int] = ()) -> None:
    """Close what this process has inherited beyond the standard streams and the descriptors it was given.

    uvloop closes nothing in a child, so that it has every inheritable descriptor of its parent.
    """
    for name in os.listdir("/dev/fd"):
        descriptor = int(name)
        if descriptor not in _STANDARD and descriptor not in kept:
            with suppress(OSError):  # that of the listing itself is closed already
                os.close(descriptor)


def hide_process() -> None:
    """Keep other processes of this user from reading the memory and the initial environment of this one.

    A task runs as the user of its worker, and could read `/proc/<pid>/environ` or attach a debugger. Linux
    only; it lasts until the next exec, and does not apply to root.
    """
    _set_dumpable(0)


def show_process() -> None:
    """Undo `hide_process`, which forks inherit: a task may read its own files in /proc."""
    _set_dumpable(1)


def _set_dumpable(value: int) -> None:
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415 - executors close descriptors only

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, value, 0, 0, 0)
