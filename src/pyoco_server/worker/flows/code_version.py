"""The version of a worker's code: equal on every machine with the same files and wheels."""

import os
import stat
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from pyoco_server.worker.flows.folder_fingerprint import files_below

# Enough to tell versions apart, and short enough to be read.
_DIGITS: Final = 16


def code_version(folder: Path | None, code_folders: Sequence[str]) -> str:
    """The digest of the Python and YAML files in the folder and below, and of the names of the wheels."""
    digest = sha256()
    for name in files_below(folder) if folder is not None else ():
        digest.update(f"{name}\0".encode(errors="surrogateescape"))
        digest.update(sha256(_content_of(os.path.join(folder or "", name))).digest())
    for wheel in wheels_in(code_folders):
        digest.update(f"{wheel}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()[:_DIGITS]


def code_key(fingerprint: str, code_folders: Sequence[str]) -> str:
    """A key for caching the version: the digest of the folder's fingerprint and the wheels.

    It changes whenever the version does. Reads no file.
    """
    parts = [fingerprint, *wheels_in(code_folders)]
    return sha256("\n".join(parts).encode(errors="surrogateescape")).hexdigest()


def _content_of(file: str) -> bytes:
    try:
        if not stat.S_ISREG(os.stat(file).st_mode):
            # Reading a FIFO would wait for a writer, for ever.
            return b"not a regular file"
        with open(file, "rb", buffering=0) as opened:
            return opened.readall()
    except OSError as error:
        # Removed meanwhile, or a broken link: a state like any other.
        return f"{error.strerror}".encode()


def wheels_in(code_folders: Sequence[str]) -> list[str]:
    """Names and versions, such as `reports-1.2.0`."""
    return sorted(
        path.name.removesuffix(".dist-info")
        for each in code_folders
        for path in Path(each).glob("*.dist-info")
    )
