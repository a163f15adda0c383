"""Reading single fields of JSON requests and responses, for the audit log."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw

Detail = str | int | float | bool | list[str]

_MAX_CHARS: Final = 200
_MAX_ITEMS: Final = 20
_fields = msgspec.json.Decoder(dict[str, Raw]).decode


class JsonFields:
    """The fields of a JSON object; of anything else, none. Only those that are asked for are decoded."""

    def __init__(self, content: bytes) -> None:
        self._fields = _object_in(content)

    @property
    def names(self) -> list[str]:
        return [name[:_MAX_CHARS] for name in self._fields][:_MAX_ITEMS]

    def get(self, path: str) -> Detail | None:
        """A text, a number, a boolean or a list of texts, cut if it is long; None for anything else."""
        fields: Mapping[str, Raw] = self._fields
        *parents, name = path.split(".")
        for parent in parents:
            fields = _object_in(bytes(fields[parent])) if parent in fields else {}
        return _detail(_value_in(fields[name])) if name in fields else None

    def text(self, path: str) -> str | None:
        value = self.get(path)
        return None if value is None or isinstance(value, list) else str(value)

    def details(self, paths: Iterable[str]) -> dict[str, Detail]:
        found = ((path.rpartition(".")[2], self.get(path)) for path in paths)
        return {name: value for name, value in found if value is not None}


def _object_in(content: bytes) -> dict[str, Raw]:
    try:
        return _fields(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        # Not JSON, or no object: the response says so, and there is nothing to keep.
        return {}


def _value_in(field: Raw) -> Any:
    try:
        return msgspec.json.decode(field)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        # Raw fields are not checked: it may be no UTF-8, or a number that is too large.
        return None


def _detail(value: Any) -> Detail | None:
    if isinstance(value, str):
        return value if len(value) <= _MAX_CHARS else f"{value[: _MAX_CHARS - 1]}…"
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        return [each[:_MAX_CHARS] for each in value[:_MAX_ITEMS]]
    return None
