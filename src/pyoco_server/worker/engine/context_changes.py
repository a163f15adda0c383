"""What a task changed in its flow's shared state: scratch, params and variables.

A finished task that is not executed again must leave the same state behind, or the flow would go on
differently. Changes are told per top-level name: the new value as a whole, or that the name is gone. A task
answers for the names it has touched: what a parallel one is doing meanwhile is not its doing.

Names that share an object are touched together and recorded together, so that they share it after a replay
too. A dictionary that a task has put in the place of one of ours is not followed while tasks execute: until
then, each of them answers for all of its names.
"""

import pickle
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import Any

from pyoco.core.context import Context

from pyoco_server.worker.engine.shared_objects import groups_that_share

_AS_THEY_ARE = (str, int, float, bool, bytes, type(None))
# A digest is kept instead of a longer value.
_LONGEST_KEPT = 256
_SHARED = ("scratch", "params", "_vars")
_MISSING = object()

# Without a name: all of it, which is of another type than a dictionary.
Name = tuple[str, str | None]
# Names with their new values, and names that are gone.
Changes = tuple[dict[Name, Any], list[Name]]


class SharedState(dict[str, Any]):
    """A dictionary that tells which names are taken out of it or put into it, before they are."""

    __slots__ = ("_root", "_touch")

    def __init__(self, root: str, content: dict[str, Any], touch: Callable[[str, str], None]) -> None:
        super().__init__(content)
        self._root = root
        self._touch = touch

    def __iter__(self) -> Iterator[str]:
        # Overridden so that `{**state}`, `dict(state)` and the like take each value by `__getitem__`.
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

    def __ior__(self, other: Any) -> "SharedState":  # type: ignore[override]
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
        # As a value of its own, for example a task's result, it is a plain dictionary.
        return dict, (dict(self),)

    def _touch_all(self) -> None:
        for name in list(self):
            self._touch(self._root, name)


class TouchedNames:
    """The names that one executing task has touched, each as it was before."""

    __slots__ = ("before", "items")

    def __init__(self, items: list[Any]) -> None:
        self.before: dict[Name, object] = {}
        # The items of the loops that it is in. They are parts of something else, which the engine goes over.
        self.items = [(item, _fingerprint(item)) for item in items]

    def has_changed_an_item(self) -> bool:
        return any(_fingerprint(item) != before for item, before in self.items)


class ContextChanges:
    """Follows the shared state of one run."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._own = threading.local()
        self._executing: list[TouchedNames] = []
        # Weak: the state leads back here, and a run's memory is to be free at its end.
        self._context: Callable[[], Context | None] = lambda: None
        self._attributes: set[str] = set()
        self._environment: dict[str, str] = {}
        # The dictionaries that were put into the context to be followed.
        self._states: dict[str, SharedState] = {}
        # As it was when last looked at; true as long as one task executes at a time.
        self._known: dict[Name, object] = {}
        # Of each name that shares an object with others: all of them.
        self._sharing: dict[Name, frozenset[Name]] = {}
        # Which entry of the journal each name was last restored from.
        self._restored_from: dict[Name, int] = {}

    def attach(self, context: Context) -> None:
        """Have the context's state be followed."""
        self._context = weakref.ref(context)
        for root in _SHARED:
            self._follow(root, getattr(context, root))
        self._attributes = set(vars(context))
        self._environment = dict(context.env)

    def began(self, inputs: dict[str, Any]) -> TouchedNames:
        """A task is about to execute on this thread, with these inputs."""
        touched = TouchedNames(self._items())
        with self._lock:
            self._executing.append(touched)
            self._own.touched = touched
            for root in self._replaced():
                self._touch(touched, [(root, None), *((root, name) for name in self._state(root))])
        params = self._state("params")
        for value in inputs.values():
            if type(value) not in _AS_THEY_ARE:
                # A parameter that is wired from the params is the very object in there, under any name.
                for name in [name for name in params if dict.get(params, name) is value]:
                    self._touched("params", name)
        return touched

    def ended(self, touched: TouchedNames) -> tuple[Changes, list[str]]:
        """What the task changed, and what has a value of which no change can be stored."""
        self._own.touched = None
        with self._lock:
            untold = self._new_attributes()
            if touched.has_changed_an_item():
                untold.append("the item of its loop")
            replaced = self._replaced()
            for root in replaced:
                self._touch_what_it_replaced(root)
            self._executing.remove(touched)
            changes, unstorable = self._compared(touched)
            if not self._executing:
                self._follow_again(replaced)
        return changes, untold + unstorable

    def _compared(self, touched: TouchedNames) -> tuple[Changes, list[str]]:
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
            # It is a dictionary again, and begins with nothing when it is restored.
            changed |= {(root, name): value for name, value in dict.items(self._state(root))}
        for together in self._share_anew(touched.before):
            if not together.isdisjoint(changed):
                changed |= {name: self._value(*name) for name in together}
        return (changed, gone), unstorable

    def will_be_written(self, targets: list[str]) -> None:
        """The engine is about to save a task's result under these paths: no later task's doing."""
        with self._lock:
            for target in targets:
                root, _, path = target.partition(".")
                self._known.pop((root, path.partition(".")[0]), None)

    def restore(self, changes: Changes, order: int) -> None:
        """Have the state as a finished task left it, where no task that finished later has changed it."""
        changed, gone = changes
        with self._lock:
            newest = [name for name in (*changed, *gone) if self._restored_from.get(name, -1) <= order]
            # The whole of a state first: a name of it may come with it.
            for root, name in sorted(newest, key=lambda each: each[1] is not None):
                self._restored_from[root, name] = order
                self._known.pop((root, name), None)
                if name is None and (root, name) in changed:
                    setattr(self._context(), root, changed[root, name])
                elif name is None:
                    self._follow(root, {})
                elif (root, name) in changed:
                    dict.__setitem__(self._state(root), name, changed[root, name])
                else:
                    dict.pop(self._state(root), name, None)
            self._share_anew(newest)

    def _items(self) -> list[Any]:
        context = self._context()
        frames = () if context is None or context.loop is None else context.loops
        return [frame.item for frame in frames if type(frame.item) not in _AS_THEY_ARE]

    def _state(self, root: str) -> dict[str, Any]:
        """What the context has there; nothing if it is not a dictionary at all."""
        state = getattr(self._context(), root, None)
        return state if isinstance(state, dict) else {}

    def _value(self, root: str, name: str | None) -> Any:
        if name is not None:
            return dict.get(self._state(root), name, _MISSING)
        state = getattr(self._context(), root)
        return _MISSING if type(state) in (dict, SharedState) else state

    def _touched(self, root: str, name: str) -> None:
        """Whose doing it is: the task's of this thread, or of any one that may have started it."""
        own = getattr(self._own, "touched", None)
        with self._lock:
            for touched in [own] if own is not None else self._executing:
                if (root, name) not in touched.before:
                    self._touch(touched, self._sharing.get((root, name)) or [(root, name)])

    def _touch(self, touched: TouchedNames, names: Iterable[Name]) -> None:
        for root, name in names:
            if (root, name) not in touched.before:
                touched.before[root, name] = self._as_it_is(root, name)

    def _as_it_is(self, root: str, name: str | None) -> object:
        if len(self._executing) == 1 and (root, name) in self._known:
            return self._known[root, name]
        return _fingerprint(self._value(root, name))

    def _share_anew(self, names: Iterable[Name]) -> list[frozenset[Name]]:
        """Find out which of these names share an object now: those that did before are all among them."""
        groups = self._groups(names)
        if self._sharing:
            for name in names:
                self._sharing.pop(name, None)
        for together in groups:
            self._sharing |= dict.fromkeys(together, together)
        return groups

    def _groups(self, names: Iterable[Name]) -> list[frozenset[Name]]:
        values = {name: value for name in names if type(value := self._value(*name)) not in _AS_THEY_ARE}
        return groups_that_share(values) if len(values) > 1 else []

    def _new_attributes(self) -> list[str]:
        """What tasks have assigned to the context beside its state, which no entry has room for."""
        attributes = vars(self._context())
        new: list[str] = []
        if len(attributes) != len(self._attributes):
            new = list(attributes.keys() - self._attributes)
            self._attributes |= attributes.keys()
        if attributes["env"] != self._environment:
            self._environment = dict(attributes["env"])
            new.append("env")
        return [f"ctx.{name}" for name in sorted(new)]

    # A state that a task has replaced as a whole

    def _follow(self, root: str, content: dict[str, Any]) -> None:
        self._states[root] = SharedState(root, content, self._touched)
        setattr(self._context(), root, self._states[root])

    def _replaced(self) -> list[str]:
        """The roots where the context has something else than what is followed."""
        attributes = vars(self._context())
        return [root for root, state in self._states.items() if attributes[root] is not state]

    def _touch_what_it_replaced(self, root: str) -> None:
        """Whoever executes may have replaced it, or changed what is there now."""
        replaced = self._states[root]
        for touched in self._executing:
            touched.before.setdefault((root, None), _MISSING)
            for name in {*replaced, *self._state(root)}:
                before = dict.get(replaced, name, _MISSING)
                touched.before.setdefault((root, name), _fingerprint(before))

    def _follow_again(self, replaced: Iterable[str]) -> None:
        """No task has it in its hands any more. One of another type is left as it is."""
        for root in replaced:
            state = getattr(self._context(), root)
            if type(state) in (dict, SharedState):
                self._follow(root, state)


class _Unstorable:
    """Stands for a value that cannot be stored: which object it is can still be told."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Unstorable) and self._value is other._value

    __hash__ = object.__hash__


def _fingerprint(value: Any) -> object:
    if value is _MISSING:
        return _MISSING
    if type(value) in _AS_THEY_ARE and (not isinstance(value, str | bytes) or len(value) <= _LONGEST_KEPT):
        return type(value), value
    try:
        return blake2b(pickle.dumps(value, protocol=5)).digest()
    except Exception:  # noqa: BLE001 - pickling runs the user's code
        return _Unstorable(value)
