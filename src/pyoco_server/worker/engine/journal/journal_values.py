"""How journalled results are stored: plain data as msgpack, anything else as a pickle.

A resumed flow must get back exactly what its tasks returned: the same types, and shared objects shared. What
msgpack keeps like that is stored as msgpack, which cannot run code when it is loaded. A pickle can: NATS lets
only gateways and the workers of the same tag write it (broker/permissions.py).
"""

import pickle
from typing import Any, Final

import msgspec

from pyoco_server.worker.engine.tasks.context_changes import Changes

# Before a msgpack value; msgpack itself never uses the byte, and pickles begin with another.
_PLAIN: Final = b"\xc1"
_PICKLE: Final = b"\x80"
_SCALARS: Final = frozenset({type(None), bool, int, float, str, bytes})
_KEYS: Final = frozenset({str})
_NAMES: Final = frozenset({str, type(None)})
# Checking more would take longer than the pickle.
_MAX_NODES: Final = 10_000
# Less than the recursion limit allows, wherever it is loaded.
_MAX_DEPTH: Final = 64

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


def dump_value(value: Any) -> bytes:
    return _packed(value, check=value) or pickle.dumps(value, protocol=5)


def load_value(stored: bytes) -> Any:
    return _load(stored)


def dump_changes(changes: Changes) -> bytes:
    values, removed = changes
    packed: bytes | None = None
    if all(type(part) in _NAMES for name in (*values, *removed) for part in name):
        named = [[*name, value] for name, value in values.items()]
        # Together: names that share an object share it after a replay, too.
        packed = _packed([named, removed], check=list(values.values()))
    return packed or pickle.dumps(changes, protocol=5)


def load_changes(stored: bytes) -> Changes:
    loaded = _load(stored)
    if stored.startswith(_PICKLE):
        changes: Changes = loaded
        return changes
    named, removed = loaded
    return {(root, name): value for root, name, value in named}, [(root, name) for root, name in removed]


def _packed(content: Any, *, check: Any) -> bytes | None:
    """None if msgpack does not keep what is to be checked."""
    if not _is_plain(check):
        return None
    try:
        return _PLAIN + _encode(content)
    except (OverflowError, UnicodeEncodeError):
        # An integer of more than 64 bits, or a lone surrogate.
        return None


def _load(stored: bytes) -> Any:
    if stored.startswith(_PLAIN):
        return _decode(stored[1:])
    if stored.startswith(_PICKLE):
        return pickle.loads(stored)  # noqa: S301 - see above
    raise ValueError(f"a value of an unknown form, which begins with {stored[:1]!r}")


def _is_plain(value: Any) -> bool:
    """Whether msgpack keeps the value, its types and what is shared in it."""
    seen: set[int] = set()
    nodes = 0
    level = [] if type(value) in _SCALARS else [value]
    for _ in range(_MAX_DEPTH):
        nested: list[Any] = []
        for each in level:
            kind = type(each)
            if kind is list:
                items = each
            elif kind is dict and _KEYS.issuperset(map(type, each)):
                items = each.values()
            else:
                return False
            nodes += len(items)
            if id(each) in seen or nodes > _MAX_NODES:
                return False
            seen.add(id(each))
            if not _SCALARS.issuperset(map(type, items)):
                nested += [item for item in items if type(item) not in _SCALARS]
        if not nested:
            return True
        level = nested
    return False
