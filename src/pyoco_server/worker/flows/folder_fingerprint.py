"""Whether a folder of flows has changed; a worker asks this without loading what its executors execute."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

FLOW_FILES: Final = frozenset({".py", ".yaml", ".yml"})


def fingerprint_of(folder: Path) -> str:
    """Changes when any Python or YAML file in the folder or below does."""
    digest = hashlib.sha256()
    for file in sorted(files_below(folder)):
        line = f"{file.relative_to(folder)}\0{_version_of(file)}\n"
        digest.update(line.encode(errors="surrogateescape"))
    return digest.hexdigest()


def _version_of(file: Path) -> str:
    try:
        found = file.stat()
    except OSError as error:
        # Removed meanwhile, or a broken link: a state like any other.
        return f"{error.strerror}"
    return f"{found.st_mtime_ns}\0{found.st_size}"


def files_below(folder: Path) -> Iterator[Path]:
    for current, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__" and not name.startswith(".")]
        yield from (Path(current, name) for name in files if Path(name).suffix in FLOW_FILES)
