"""Cuts a JSON value to a size that an agent can read; a record keeps all its fields."""

import json
from typing import Any, Final

# How many characters of a text, and how many items of an array, are kept: the first that fits.
_STEPS: Final = ((4000, 200), (1000, 100), (500, 50), (200, 20), (100, 10), (50, 5))
# More fields than any record has: a larger object is one of the user's.
_FIELDS: Final = 64
# Deeper than any record: what is there is the user's.
_DEPTH: Final = 8


class ValueTooLarge(Exception):
    """It has too many parts to be cut."""


def size_of(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass"))


def bounded(value: Any, max_bytes: int) -> tuple[Any, bool]:
    """The value, and whether it was cut; ValueTooLarge if it cannot be."""
    if size_of(value) <= max_bytes:
        return value, False
    for characters, items in _STEPS:
        cut = _cut(value, characters, items, depth=0)
        if size_of(cut) <= max_bytes:
            return cut, True
    raise ValueTooLarge


def _cut(value: Any, characters: int, items: int, *, depth: int) -> Any:
    match value:
        case str():
            return cut_text(value, characters)
        case list() | dict() if depth >= _DEPTH and value:
            return f"[cut: {len(value)} values]"
        case list():
            return [_cut(each, characters, items, depth=depth + 1) for each in value[:items]]
        case dict():
            kept = list(value.items())[: max(_FIELDS, items)]
            return {name: _cut(each, characters, items, depth=depth + 1) for name, each in kept}
    return value


def cut_text(text: str, characters: int) -> str:
    if len(text) <= characters:
        return text
    return f"{text[:characters]}… [cut: {len(text) - characters} more characters]"
