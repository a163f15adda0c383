"""Enums that also accept the names of a newer version."""

import re
from enum import StrEnum

_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,39}|[a-z][a-z0-9_]{0,39}")


class OpenStrEnum(StrEnum):
    """A StrEnum that also accepts names of a newer version, which are kept and shown as they are.

    They are in upper case or in lower case, as its own are.
    """

    @classmethod
    def _missing_(cls, value: object) -> "OpenStrEnum | None":
        if not isinstance(value, str) or _NAME.fullmatch(value) is None:
            return None
        if value.isupper() != next(iter(cls)).isupper():
            return None
        member = str.__new__(cls, value)
        member._name_ = member._value_ = value
        return member

    @property
    def known(self) -> bool:
        """Whether this version has it."""
        return self._name_ in type(self).__members__
