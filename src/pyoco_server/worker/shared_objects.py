"""Which of several values share an object: who changes it in one of them changes the others too."""

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, TypeVar

Key = TypeVar("Key")

_ATOMS = frozenset({str, int, float, bool, bytes, complex, type(None), FunctionType, BuiltinFunctionType})
_SEQUENCES = (list, tuple, set, frozenset)


def groups_that_share(values: Mapping[Key, Any]) -> list[frozenset[Key]]:
    """The keys whose values share an object that can be changed, directly or over others."""
    groups: dict[Key, set[Key]] = {key: {key} for key in values}
    found_in: dict[int, Key] = {}
    for key, value in values.items():
        for each in _changeable_objects(value):
            other = found_in.setdefault(id(each), key)
            if groups[other] is not groups[key]:
                groups[key] |= groups[other]
                for member in groups[other]:
                    groups[member] = groups[key]
    distinct = {id(group): group for group in groups.values()}
    return [frozenset(group) for group in distinct.values() if len(group) > 1]


def _changeable_objects(value: Any) -> Iterator[Any]:
    """The value and whatever it consists of, as far as it can be changed in place."""
    seen: set[int] = set()
    ahead = [value]
    while ahead:
        each = ahead.pop()
        if type(each) in _ATOMS or isinstance(each, Enum | type | ModuleType) or id(each) in seen:
            continue
        seen.add(id(each))
        has_attributes = hasattr(each, "__dict__")
        if has_attributes or type(each).__hash__ is None:
            yield each
        ahead += _parts(each)
        if has_attributes:
            ahead += vars(each).values()


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return [part for part in dict.values(value) if type(part) not in _ATOMS]
    if isinstance(value, _SEQUENCES):
        return [part for part in value if type(part) not in _ATOMS]
    return ()
