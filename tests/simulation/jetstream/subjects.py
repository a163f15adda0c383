"""Subjects and their patterns."""

from functools import lru_cache


@lru_cache(maxsize=16384)
def matches(pattern: str, subject: str) -> bool:
    if pattern == subject or pattern == ">":
        return True
    expected, given = pattern.split("."), subject.split(".")
    if expected[-1] == ">":
        if len(given) < len(expected):
            return False
        expected = expected[:-1]
        given = given[: len(expected)]
    return len(expected) == len(given) and all(
        each in ("*", word) for each, word in zip(expected, given, strict=True)
    )


def has_wildcard(pattern: str) -> bool:
    return "*" in pattern or ">" in pattern


def overlap(one: str, other: str) -> bool:
    """Whether a subject could match both patterns."""
    first, second = one.split("."), other.split(".")
    for mine, yours in zip(first, second, strict=False):
        if ">" in (mine, yours):
            return True
        if "*" not in (mine, yours) and mine != yours:
            return False
    return len(first) == len(second)
