"""The tag of one repository folder on one machine: jobs of its requests go to the worker that has it."""

import hashlib
import os
import socket
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_MACHINE_IDS: Final = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))


def repo_tag(repo: Path, origin_url: str | None) -> str:
    """`repo-<12 hex>` of origin, machine and folder.

    The folder is part of it: two clones of one origin on one machine have different worktrees.
    """
    parts = (origin_url or "", machine_id(), os.fspath(repo.resolve()))
    digest = hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()
    return f"repo-{digest[:12]}"


def machine_id(files: Iterable[Path] = _MACHINE_IDS) -> str:
    """What the system calls itself; without that, its host name and network card."""
    for file in files:
        try:
            found = file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            continue
        if found:
            return found
    return f"{socket.gethostname()}-{uuid.getnode():012x}"
