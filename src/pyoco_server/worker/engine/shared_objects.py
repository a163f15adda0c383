"""Which of several values share an object: who changes it in one of them changes the others too.

The values are walked whenever a task that had them ends, while the run's other tasks wait. So no Python
function is called per dictionary or list, and the parts of one that has only atoms are not visited singly.
"""

from collections.abc import Mapping
from enum import Enum
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, TypeVar

Key = TypeVar("Key")

_ATOMS = frozenset({str, int, float, bool, bytes, complex, type(None), FunctionType, BuiltinFunctionType})
_SEQUENCES = (list, tuple, set, frozenset)
_NOT_FOLLOWED = (Enum, type, ModuleType)


def groups_that_share(values: Mapping[Key, Any]) -> list[frozenset[Key]]:
    """The keys whose values share an object that can be changed, directly or over others."""
    groups: list[tuple[set[Key], set[int]]] = []
    known: set[int] = set()
    for key, value in values.items():
        keys, objects = {key}, _changeable_objects(value)
        if not known.isdisjoint(objects):
            sharing = [group for group in groups if not group[1].isdisjoint(objects)]
            groups = [group for group in groups if group not in sharing]
            keys.update(*(group[0] for group in sharing))
            objects.update(*(group[1] for group in sharing))
        known |= objects
        groups.append((keys, objects))
    return [frozenset(keys) for keys, _ in groups if len(keys) > 1]


def _changeable_objects(value: Any) -> set[int]:
    """The ids of the value and whatever it consists of, as far as it can be changed in place."""
    seen: set[int] = set()
    fixed: set[int] = set()
    ahead = [value]
    while ahead:
        each = ahead.pop()
        kind, identity = type(each), id(each)
        if kind in _ATOMS or identity in seen:
            continue
        seen.add(identity)
        if kind is dict:
            parts = each.values()
        elif kind is list:
            parts = each
        else:
            if not _is_changeable(each):
                fixed.add(identity)
            parts = _parts(each)
        if not _ATOMS.issuperset(map(type, parts)):
            ahead += parts
    seen -= fixed
    return seen


def _is_changeable(value: Any) -> bool:
    if isinstance(value, _NOT_FOLLOWED):
        return False
    return hasattr(value, "__dict__") or type(value).__hash__ is None


def _parts(value: Any) -> list[Any]:
    if isinstance(value, _NOT_FOLLOWED):
        return []
    parts = list(vars(value).values()) if hasattr(value, "__dict__") else []
    if isinstance(value, dict):
        parts += dict.values(value)
    elif isinstance(value, _SEQUENCES):
        parts += value
    return parts
