"""How deeply lists and mappings are nested: what reads a deep value by recursion would run out of stack."""

from __future__ import annotations

from collections.abc import Iterable


def check_nesting(value: object, limit: int) -> bool:
    """Whether at most `limit` lists and mappings lie inside one another; `[]` is one level, `[[]]` two."""
    level = _collections([value])
    for _ in range(limit):
        if not level:
            return True
        level = _collections(
            inner
            for collection in level
            for inner in (collection.values() if isinstance(collection, dict) else collection)
        )
    return not level


def _collections(values: Iterable[object]) -> Iterable[Iterable[object]]:
    # Each once: one that is there several times would otherwise be counted out at every level below.
    found = {id(value): value for value in values if isinstance(value, (dict, list, tuple))}
    return found.values()
