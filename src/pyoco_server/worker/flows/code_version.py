"""The version of a worker's code: equal on every machine with the same files and wheels."""

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
    for file in sorted(files_below(folder)) if folder is not None else ():
        digest.update(f"{file.relative_to(folder or file)}\0".encode(errors="surrogateescape"))
        digest.update(sha256(_content_of(file)).digest())
    for wheel in sorted(name for each in code_folders for name in _wheels_in(Path(each))):
        digest.update(f"{wheel}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()[:_DIGITS]


def _content_of(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        # Removed meanwhile, or a broken link: a state like any other.
        return f"{error.strerror}".encode()


def _wheels_in(code_folder: Path) -> list[str]:
    """Names and versions, such as `reports-1.2.0`."""
    return [path.name.removesuffix(".dist-info") for path in code_folder.glob("*.dist-info")]
