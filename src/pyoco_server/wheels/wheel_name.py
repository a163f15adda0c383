"""What a wheel's file name says: the package, its version, and where it can be installed."""

import re
from dataclasses import dataclass
from typing import Final

from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

_LONGEST: Final = 255
# What the parts of a wheel's name are made of, an epoch and a local version among them.
_CHARACTERS: Final = re.compile(r"[A-Za-z0-9_.+!-]+")
WANTED: Final = "wanted a wheel's own name, as in mypackage-1.2.0-py3-none-any.whl"


class InvalidWheelName(ValueError):
    """The text says what is wrong, and what is wanted."""


@dataclass(frozen=True, slots=True)
class WheelName:
    file_name: str
    # As package indexes compare names: lower case, with `-` in place of `_` and `.`.
    package: str
    version: Version
    # Every interpreter, ABI and platform that it is for.
    compatible_with: frozenset[Tag]

    @classmethod
    def parse(cls, file_name: str) -> "WheelName":
        if len(file_name) > _LONGEST or not _CHARACTERS.fullmatch(file_name):
            raise InvalidWheelName(WANTED)
        try:
            package, version, _, tags = parse_wheel_filename(file_name)
        except InvalidWheelFilename as error:
            raise InvalidWheelName(f"{error}; {WANTED}") from None
        return cls(file_name, package, version, tags)
