"""Limits the nesting of values, which recursive readers could not handle."""

from collections.abc import Iterable


def check_nesting(value: object, limit: int) -> bool:
    """Whether lists and mappings are nested at most `limit` levels; `[]` is one level, `[[]]` two."""
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
    # Each object once: one that is referenced many times would multiply at every level.
    found = {id(value): value for value in values if isinstance(value, (dict, list, tuple))}
    return found.values()
