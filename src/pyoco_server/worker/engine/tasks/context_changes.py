"""Tracks what each task changes in the shared state of its flow: scratch, params and variables.

A replayed task must leave the same state as its execution did. Changes are recorded per top-level name: the
whole new value, or that the name was removed. A change belongs to the tasks that touched the name, so that
parallel tasks do not record each other's changes.

Names that share an object are touched and recorded together, so that they share it after a replay too. A
dictionary that a task assigns in place of a tracked one is not tracked while tasks execute: until then, each
of them records all of its names.
"""

import pickle
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from hashlib import blake2b
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, TypeVar

from pyoco.core.context import Context

from pyoco_server.worker.engine.pyoco_adapter import VARIABLES

_SCALARS = (str, int, float, bool, bytes, type(None))
# Longer values are compared by digest.
_MAX_INLINE = 256
_SHARED = ("scratch", "params", VARIABLES)
_MISSING = object()
_ATOMS = frozenset({str, int, float, bool, bytes, complex, type(None), FunctionType, BuiltinFunctionType})
_SEQUENCES = (list, tuple, set, frozenset)
_NOT_FOLLOWED = (Enum, type, ModuleType)

Key = TypeVar("Key")

# A name of None means the whole state, replaced by something that is not a dictionary.
Name = tuple[str, str | None]
# Names with their new values, and removed names.
Changes = tuple[dict[Name, Any], list[Name]]


class TrackedDict(dict[str, Any]):
    """A dictionary that reports each name before it is read, written or removed."""

    __slots__ = ("_root", "_touch")

    def __init__(self, root: str, content: dict[str, Any], touch: Callable[[str, str], None]) -> None:
        super().__init__(content)
        self._root = root
        self._touch = touch

    def __iter__(self) -> Iterator[str]:
        # Overridden so that `{**state}` and `dict(state)` read each value by `__getitem__`.
        return super().__iter__()

    def __getitem__(self, name: str) -> Any:
        self._touch(self._root, name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self._touch(self._root, name)
        return super().get(name, default)

    def setdefault(self, name: str, default: Any = None) -> Any:
        self._touch(self._root, name)
        return super().setdefault(name, default)

    def __setitem__(self, name: str, value: Any) -> None:
        self._touch(self._root, name)
        super().__setitem__(name, value)

    def __delitem__(self, name: str) -> None:
        self._touch(self._root, name)
        super().__delitem__(name)

    def pop(self, name: str, *default: Any) -> Any:
        self._touch(self._root, name)
        return super().pop(name, *default)

    def popitem(self) -> tuple[str, Any]:
        self._touch_all()
        return super().popitem()

    def clear(self) -> None:
        self._touch_all()
        super().clear()

    def update(self, *others: Any, **more: Any) -> None:
        for name, value in dict(*others, **more).items():
            self[name] = value

    def __ior__(self, other: Any) -> "TrackedDict":  # type: ignore[override]
        self.update(other)
        return self

    def items(self) -> Any:
        self._touch_all()
        return super().items()

    def values(self) -> Any:
        self._touch_all()
        return super().values()

    def copy(self) -> dict[str, Any]:
        return dict(self)

    def __or__(self, other: Any) -> Any:
        return dict(self) | other

    def __ror__(self, other: Any) -> Any:
        return other | dict(self)

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickled, for example as a task's result, it is a plain dictionary.
        return dict, (dict(self),)

    def _touch_all(self) -> None:
        for name in list(self):
            self._touch(self._root, name)


class TouchedNames:
    """The names that one executing task has touched, each with its fingerprint from before."""

    __slots__ = ("before", "items")

    def __init__(self, items: list[Any]) -> None:
        self.before: dict[Name, object] = {}
        # The items of the enclosing loops. They are parts of a sequence that has no name of its own.
        self.items = [(item, _fingerprint(item)) for item in items]

    def has_changed_an_item(self) -> bool:
        return any(_fingerprint(item) != before for item, before in self.items)


class ContextChanges:
    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._own = threading.local()
        self._executing: list[TouchedNames] = []
        # Weak: the state refers back here, and a run's memory should be freed without a collection.
        self._context: Callable[[], Context | None] = lambda: None
        self._attributes: set[str] = set()
        self._environment: dict[str, str] = {}
        # The tracked dictionaries that replace those of the context.
        self._states: dict[str, TrackedDict] = {}
        # The last known fingerprints; valid while only one task executes.
        self._known: dict[Name, object] = {}
        # For each name that shares an object with others, the whole group.
        self._sharing: dict[Name, frozenset[Name]] = {}
        # The position of the journal entry that each name was last restored from.
        self._restored_from: dict[Name, int] = {}

    @property
    def attached(self) -> bool:
        return bool(self._states)

    def attach(self, context: Context) -> None:
        """Replace the dictionaries of the context by tracked ones."""
        self._context = weakref.ref(context)
        for root in _SHARED:
            self._track(root, getattr(context, root))
        self._attributes = set(vars(context))
        self._environment = dict(context.env)

    def began(self, inputs: dict[str, Any]) -> TouchedNames:
        """A task starts on this thread, with these inputs."""
        touched = TouchedNames(self._items())
        with self._lock:
            self._executing.append(touched)
            self._own.touched = touched
            for root in self._replaced_roots():
                self._touch(touched, [(root, None), *((root, name) for name in self._state(root))])
        params = self._state("params")
        for value in inputs.values():
            if type(value) not in _SCALARS:
                # An input that is wired from the params is the same object, under any name.
                for name in [name for name in params if dict.get(params, name) is value]:
                    self._on_touch("params", name)
        return touched

    def ended(self, touched: TouchedNames) -> tuple[Changes, list[str]]:
        """What the task changed, and what it may have changed that cannot be stored."""
        self._own.touched = None
        with self._lock:
            unstorable = self._new_attributes()
            if touched.has_changed_an_item():
                unstorable.append("the item of its loop")
            replaced = self._replaced_roots()
            for root in replaced:
                self._touch_replaced(root)
            self._executing.remove(touched)
            changes, more = self._compare(touched)
            if not self._executing:
                self._track_again(replaced)
        return changes, unstorable + more

    def _compare(self, touched: TouchedNames) -> tuple[Changes, list[str]]:
        changed: dict[Name, Any] = {}
        gone: list[Name] = []
        unstorable: list[str] = []
        for (root, name), before in touched.before.items():
            value = self._value(root, name)
            now = _fingerprint(value)
            self._known[root, name] = now
            if isinstance(now, _Unstorable) and now == before:
                unstorable.append(f"{root.strip('_')} {name!r}" if name is not None else root.strip("_"))
            elif now != before and value is _MISSING:
                gone.append((root, name))
            elif now != before:
                changed[root, name] = value
        for root in [root for root, name in gone if name is None]:
            # It is a dictionary again, which is empty when it is restored.
            changed |= {(root, name): value for name, value in dict.items(self._state(root))}
        for together in self._update_sharing(touched.before):
            if not together.isdisjoint(changed):
                changed |= {name: self._value(*name) for name in together}
        return (changed, gone), unstorable

    def will_be_written(self, targets: list[str]) -> None:
        """The engine saves a task's result under these paths: not a change by a later task."""
        with self._lock:
            for target in targets:
                root, _, path = target.partition(".")
                self._known.pop((root, path.partition(".")[0]), None)

    def restore(self, changes: Changes, order: int) -> None:
        """Restore the state that a finished task left, except where a later task has changed it."""
        changed, gone = changes
        with self._lock:
            newest = [name for name in (*changed, *gone) if self._restored_from.get(name, -1) <= order]
            # Whole states first: they contain names.
            for root, name in sorted(newest, key=lambda each: each[1] is not None):
                self._restored_from[root, name] = order
                self._known.pop((root, name), None)
                if name is None and (root, name) in changed:
                    setattr(self._context(), root, changed[root, name])
                elif name is None:
                    self._track(root, {})
                elif (root, name) in changed:
                    dict.__setitem__(self._state(root), name, changed[root, name])
                else:
                    dict.pop(self._state(root), name, None)
            self._update_sharing(newest)

    def _items(self) -> list[Any]:
        context = self._context()
        frames = () if context is None or context.loop is None else context.loops
        return [frame.item for frame in frames if type(frame.item) not in _SCALARS]

    def _state(self, root: str) -> dict[str, Any]:
        """The state as a dictionary; empty if a task has replaced it by another type."""
        state = getattr(self._context(), root, None)
        return state if isinstance(state, dict) else {}

    def _value(self, root: str, name: str | None) -> Any:
        if name is not None:
            return dict.get(self._state(root), name, _MISSING)
        state = getattr(self._context(), root)
        return _MISSING if type(state) in (dict, TrackedDict) else state

    def _on_touch(self, root: str, name: str) -> None:
        """Attribute it to the task of this thread, or to all tasks if the thread has none."""
        own = getattr(self._own, "touched", None)
        with self._lock:
            for touched in [own] if own is not None else self._executing:
                if (root, name) not in touched.before:
                    self._touch(touched, self._sharing.get((root, name)) or [(root, name)])

    def _touch(self, touched: TouchedNames, names: Iterable[Name]) -> None:
        for root, name in names:
            if (root, name) not in touched.before:
                touched.before[root, name] = self._fingerprint_before(root, name)

    def _fingerprint_before(self, root: str, name: str | None) -> object:
        if len(self._executing) == 1 and (root, name) in self._known:
            return self._known[root, name]
        return _fingerprint(self._value(root, name))

    def _update_sharing(self, names: Iterable[Name]) -> list[frozenset[Name]]:
        """Recompute which of these names share an object; the names must include whole former groups."""
        groups = self._groups(names)
        if self._sharing:
            for name in names:
                self._sharing.pop(name, None)
        for together in groups:
            self._sharing |= dict.fromkeys(together, together)
        return groups

    def _groups(self, names: Iterable[Name]) -> list[frozenset[Name]]:
        values = {name: value for name in names if type(value := self._value(*name)) not in _SCALARS}
        return groups_that_share(values) if len(values) > 1 else []

    def _new_attributes(self) -> list[str]:
        """Attributes that tasks have assigned to the context outside its state; they are not journalled."""
        attributes = vars(self._context())
        new: list[str] = []
        if len(attributes) != len(self._attributes):
            new = list(attributes.keys() - self._attributes)
            self._attributes |= attributes.keys()
        if attributes["env"] != self._environment:
            self._environment = dict(attributes["env"])
            new.append("env")
        return [f"ctx.{name}" for name in sorted(new)]

    def _track(self, root: str, content: dict[str, Any]) -> None:
        self._states[root] = TrackedDict(root, content, self._on_touch)
        setattr(self._context(), root, self._states[root])

    def _replaced_roots(self) -> list[str]:
        """The roots where a task has assigned something else in place of the tracked dictionary."""
        attributes = vars(self._context())
        return [root for root, state in self._states.items() if attributes[root] is not state]

    def _touch_replaced(self, root: str) -> None:
        """Any executing task may have replaced it, or changed the replacement."""
        replaced = self._states[root]
        for touched in self._executing:
            touched.before.setdefault((root, None), _MISSING)
            for name in {*replaced, *self._state(root)}:
                before = dict.get(replaced, name, _MISSING)
                touched.before.setdefault((root, name), _fingerprint(before))

    def _track_again(self, replaced: Iterable[str]) -> None:
        """No task executes: track replacements again. One of another type is left as it is."""
        for root in replaced:
            state = getattr(self._context(), root)
            if type(state) in (dict, TrackedDict):
                self._track(root, state)


class _Unstorable:
    """A value that cannot be pickled; compared by identity."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Unstorable) and self._value is other._value

    __hash__ = object.__hash__


def _fingerprint(value: Any) -> object:
    if value is _MISSING:
        return _MISSING
    if type(value) in _SCALARS and (not isinstance(value, str | bytes) or len(value) <= _MAX_INLINE):
        return type(value), value
    try:
        return blake2b(pickle.dumps(value, protocol=5)).digest()
    except Exception:  # noqa: BLE001 - pickling runs the user's code
        return _Unstorable(value)


def groups_that_share(values: Mapping[Key, Any]) -> list[frozenset[Key]]:
    """The keys whose values share a mutable object, directly or through others.

    Called whenever a task ends, while the other tasks of the run wait: it calls no Python function per
    dictionary or list, and does not visit the parts of a container that has only atoms.
    """
    groups: list[tuple[set[Key], set[int]]] = []
    known: set[int] = set()
    for key, value in values.items():
        keys, objects = {key}, _mutable_objects(value)
        if not known.isdisjoint(objects):
            sharing = [group for group in groups if not group[1].isdisjoint(objects)]
            groups = [group for group in groups if group not in sharing]
            keys.update(*(group[0] for group in sharing))
            objects.update(*(group[1] for group in sharing))
        known |= objects
        groups.append((keys, objects))
    return [frozenset(keys) for keys, _ in groups if len(keys) > 1]


def _mutable_objects(value: Any) -> set[int]:
    """The ids of the value and its parts, as far as they can be changed in place."""
    seen: set[int] = set()
    immutable: set[int] = set()
    pending = [value]
    while pending:
        each = pending.pop()
        kind, identity = type(each), id(each)
        if kind in _ATOMS or identity in seen:
            continue
        seen.add(identity)
        if kind is dict:
            parts = each.values()
        elif kind is list:
            parts = each
        else:
            if not _is_mutable(each):
                immutable.add(identity)
            parts = _parts(each)
        if not _ATOMS.issuperset(map(type, parts)):
            pending += parts
    seen -= immutable
    return seen


def _is_mutable(value: Any) -> bool:
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
