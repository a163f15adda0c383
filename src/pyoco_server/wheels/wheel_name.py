"""The parts of a wheel's file name."""

import re
from dataclasses import dataclass
from typing import Final

from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

_MAX_CHARS: Final = 255
# Includes those of an epoch and of a local version.
_CHARACTERS: Final = re.compile(r"[A-Za-z0-9_.+!-]+")
EXPECTED: Final = "expected a wheel's own name, as in mypackage-1.2.0-py3-none-any.whl"


class InvalidWheelName(ValueError):
    """The text says what is expected."""


@dataclass(frozen=True, slots=True)
class WheelName:
    file_name: str
    # Normalized.
    package: str
    version: Version
    compatible_with: frozenset[Tag]

    @classmethod
    def parse(cls, file_name: str) -> "WheelName":
        if len(file_name) > _MAX_CHARS or not _CHARACTERS.fullmatch(file_name):
            raise InvalidWheelName(EXPECTED)
        try:
            package, version, _, tags = parse_wheel_filename(file_name)
        except InvalidWheelFilename as error:
            raise InvalidWheelName(f"{error}; {EXPECTED}") from None
        return cls(file_name, package, version, tags)
