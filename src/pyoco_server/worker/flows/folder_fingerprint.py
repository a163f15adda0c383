"""Whether a folder of flows has changed; a worker asks this without loading what its executors execute."""

import hashlib
import os
from pathlib import Path
from typing import Final

FLOW_FILES: Final = frozenset({".py", ".yaml", ".yml"})


def fingerprint_of(folder: Path) -> str:
    """Changes when any Python or YAML file in the folder or below does."""
    digest = hashlib.sha256()
    for name in files_below(folder):
        line = f"{name}\0{_version_of(os.path.join(folder, name))}\n"
        digest.update(line.encode(errors="surrogateescape"))
    return digest.hexdigest()


def _version_of(file: str) -> str:
    try:
        found = os.stat(file)
    except OSError as error:
        # Removed meanwhile, or a broken link: a state like any other.
        return f"{error.strerror}"
    # Images, archives and `cp -p` give files an old time of modification, often the same one to all. The time
    # of the change of the inode cannot be set.
    return f"{found.st_mtime_ns}\0{found.st_ctime_ns}\0{found.st_size}"


def files_below(folder: Path) -> list[str]:
    """The files relative to the folder, in an order that is the same on every machine.

    Text instead of paths: of thousands of files, paths take most of the time.
    """
    found: list[str] = []
    for current, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__" and not name.startswith(".")]
        below = os.path.relpath(current, folder)
        prefix = "" if below == os.curdir else f"{below}{os.sep}"
        found += [f"{prefix}{name}" for name in files if os.path.splitext(name)[1] in FLOW_FILES]
    # As paths are sorted: by their parts.
    return sorted(found, key=lambda name: name.split(os.sep))
