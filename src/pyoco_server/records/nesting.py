"""How deep lists and mappings are nested: limits, because recursive readers cannot handle any depth."""

from collections.abc import Iterable
from itertools import accumulate
from typing import Final

# Of values that a request or a task gives: far more than people write, far less than any JSON library allows.
MAX_INPUT_NESTING: Final = 100
# Of stored records. Deeper ones cannot be encoded again everywhere: Python's stack has 1,000 frames.
MAX_RECORD_NESTING: Final = 500

_OTHERS: Final = bytes(byte for byte in range(256) if byte not in b'[]{}"')
_SQUARE: Final = bytes.maketrans(b"{}", b"[]")
_STEPS: Final = {ord("["): 1, ord("]"): -1}
_FLAT: Final = 8


def is_nested_deeper(value: object, limit: int) -> bool:
    """Whether lists and mappings are nested more than `limit` levels; `[]` is one level, `[[]]` two."""
    level = _collections([value])
    for _ in range(limit):
        if not level:
            return False
        level = _collections(
            inner
            for collection in level
            for inner in (collection.values() if isinstance(collection, dict) else collection)
        )
    return bool(level)


def is_json_nested_deeper(data: bytes, limit: int) -> bool:
    """The same of the value of a JSON text, which is not decoded."""
    # Nearly all records have fewer brackets than that.
    if data.count(b"{") + data.count(b"[") <= limit:
        return False
    brackets = _brackets(data)
    levels = 0
    # Most are flat: a few passes that remove the innermost level leave nothing.
    while brackets and levels < _FLAT:
        brackets = brackets.replace(b"[]", b"")
        levels += 1
    return levels + max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > limit


def _collections(values: Iterable[object]) -> Iterable[Iterable[object]]:
    # Each object once: one that is referenced many times would multiply at every level.
    found = {id(value): value for value in values if isinstance(value, (dict, list, tuple))}
    return found.values()


def _brackets(data: bytes) -> bytes:
    """The brackets of a JSON text that are not in strings, all as square ones."""
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Two adjacent quotes cancel out: what is before and after them is both inside or both outside of strings.
    left = data.translate(_SQUARE, _OTHERS).replace(b'""', b"")
    return left if b'"' not in left else b"".join(left.split(b'"')[::2])
