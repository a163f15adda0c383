"""Artifacts, the files of a run: their names, and what its snapshot says about them."""

import re
from typing import Annotated, Final
from unicodedata import normalize

from msgspec import Meta, Struct

# The folder of a run's files, and the beginning of the names of their stored objects.
ARTIFACTS: Final = "artifacts"
_PREFIX: Final = f"{ARTIFACTS}/"

# Of a path; the name of a stored object has 1,024.
MAX_NAME_BYTES: Final = 1000
_MAX_PART_BYTES: Final = 255
# Control characters, and the other separator: on Windows `a\..\b` is outside of `a`.
_FORBIDDEN: Final = re.compile(r"[\x00-\x1f\x7f\\]")
# Files that are being written have names of their own; no artifact begins so.
UNFINISHED: Final = ".pyoco-unfinished-"
_EXPECTED: Final = "expected a relative path such as 'report.csv' or 'plots/loss.png'"
# How many of the files that were left out a snapshot names, and how much of each.
MAX_LISTED: Final = 20
_LISTED_CHARS: Final = 200

_Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class LeftOut(Struct, kw_only=True, omit_defaults=True):
    """A file that is not stored, and why."""

    name: str
    reason: str
    # None where several tasks may have written it.
    task: str | None = None


class ArtifactCounts(Struct, kw_only=True):
    """How many files a run has stored, their size, and how many were left out."""

    count: _Count = 0
    bytes: _Count = 0
    left_out_count: _Count = 0


class ArtifactSummary(ArtifactCounts, kw_only=True):
    """The artifacts of a run, in its snapshot."""

    # The first ones.
    left_out: list[LeftOut] = []


class InvalidArtifactName(ValueError):
    """The text says what is wrong with it."""


def artifact_name(name: object) -> str:
    """The name in NFC; InvalidArtifactName if it leads out of its folder, or not every system has it."""
    if not isinstance(name, str):
        raise InvalidArtifactName(f"{_EXPECTED}, not {type(name).__name__}")
    try:
        named = normalize("NFC", name)
        size = len(named.encode())
    except UnicodeEncodeError:
        raise InvalidArtifactName("its name is not valid UTF-8") from None
    if not 0 < size <= MAX_NAME_BYTES:
        raise InvalidArtifactName(f"a name has 1 to {MAX_NAME_BYTES} bytes, this one {size}")
    if _FORBIDDEN.search(named):
        raise InvalidArtifactName(f"a name has no control characters and no backslashes; {_EXPECTED}")
    for part in named.split("/"):
        if part in ("", ".", ".."):
            raise InvalidArtifactName(f"a name has no part {part!r} and begins with no '/'; {_EXPECTED}")
        if len(part.encode()) > _MAX_PART_BYTES:
            raise InvalidArtifactName(f"a part of a name has at most {_MAX_PART_BYTES} bytes")
    if named.rpartition("/")[2].startswith(UNFINISHED):
        raise InvalidArtifactName(f"names that begin with {UNFINISHED!r} are those of unfinished files")
    return named


def object_name(artifact: str) -> str:
    """The name of the stored object of an artifact."""
    return _PREFIX + artifact


def artifact_of(stored: str) -> str | None:
    """The artifact that an object of a run is; None for its other objects, and for a name that is not safe.

    Workers write these names.
    """
    name = stored.removeprefix(_PREFIX)
    try:
        return name if name != stored and artifact_name(name) == name else None
    except InvalidArtifactName:
        return None


def shown_left_out(name: str, reason: str, task: str | None) -> LeftOut:
    """As it is shown: names of files may be anything."""
    shown = name.encode("utf-8", "backslashreplace").decode()
    return LeftOut(name=shown[:_LISTED_CHARS], reason=reason[:_LISTED_CHARS], task=task)
