"""What a task changed in its flow's shared state: scratch, params and variables.

A finished task that is not executed again must leave the same state behind, or the flow would go on
differently. Changes are told per top-level name: the new value as a whole, or that the name is gone. A task
answers for the names it has had in its hands: what a parallel one is doing meanwhile is not its doing.
"""

import pickle
import threading
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Any

from pyoco.core.context import Context

_AS_THEY_ARE = (str, int, float, bool, bytes, type(None))
# A digest is kept instead of a longer value.
_LONGEST_KEPT = 256
_SHARED = ("scratch", "params", "_vars")
_MISSING = object()

Name = tuple[str, str]
# Names with their new values, and names that are gone.
Changes = tuple[dict[Name, Any], list[Name]]


class SharedState(dict[str, Any]):
    """A dictionary that tells which names are taken out of it or put into it, before they are."""

    __slots__ = ("_touch",)

    def __init__(self, content: dict[str, Any], touch: Callable[["SharedState", str], None]) -> None:
        super().__init__(content)
        self._touch = touch

    def __getitem__(self, name: str) -> Any:
        self._touch(self, name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self._touch(self, name)
        return super().get(name, default)

    def setdefault(self, name: str, default: Any = None) -> Any:
        self._touch(self, name)
        return super().setdefault(name, default)

    def __setitem__(self, name: str, value: Any) -> None:
        self._touch(self, name)
        super().__setitem__(name, value)

    def __delitem__(self, name: str) -> None:
        self._touch(self, name)
        super().__delitem__(name)

    def pop(self, name: str, *default: Any) -> Any:
        self._touch(self, name)
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

    def __ior__(self, other: Any) -> "SharedState":  # type: ignore[override,misc]
        self.update(other)
        return self

    def items(self) -> Any:
        self._touch_all()
        return super().items()

    def values(self) -> Any:
        self._touch_all()
        return super().values()

    def copy(self) -> dict[str, Any]:
        self._touch_all()
        return dict(self)

    def __reduce__(self) -> tuple[Any, ...]:
        # As a value of its own, for example a task's result, it is a plain dictionary.
        return dict, (dict(self),)

    def _touch_all(self) -> None:
        for name in list(self):
            self._touch(self, name)


class TouchedNames:
    """The names that one executing task has touched, each as it was before."""

    __slots__ = ("before",)

    def __init__(self) -> None:
        self.before: dict[Name, object] = {}


class ContextChanges:
    """Follows the shared state of one run."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._own = threading.local()
        self._executing: list[TouchedNames] = []
        self._states: dict[str, SharedState] = {}
        # As it was when last looked at; true as long as one task executes at a time.
        self._known: dict[Name, object] = {}
        # Which entry of the journal each name was last restored from.
        self._restored_from: dict[Name, int] = {}

    def attach(self, context: Context) -> None:
        """Have the context's state be followed."""
        for root in _SHARED:
            self._states[root] = SharedState(getattr(context, root), self._touched)
            setattr(context, root, self._states[root])

    def began(self, inputs: dict[str, Any]) -> TouchedNames:
        """A task is about to execute on this thread, with these inputs."""
        hands = TouchedNames()
        with self._lock:
            self._executing.append(hands)
        self._own.hands = hands
        # A parameter that is wired from the params is the very object in there.
        for name, value in inputs.items():
            if dict.get(self._states["params"], name, _MISSING) is value:
                self._states["params"].get(name)
        return hands

    def ended(self, hands: TouchedNames) -> tuple[Changes, list[str]]:
        """What the task changed, and which names have a value that no change can be told of."""
        self._own.hands = None
        changed: dict[Name, Any] = {}
        gone: list[Name] = []
        untold: list[str] = []
        with self._lock:
            self._executing.remove(hands)
            for (root, name), before in hands.before.items():
                value = dict.get(self._states[root], name, _MISSING)
                now = _fingerprint(value)
                self._known[root, name] = now
                if isinstance(now, _Unstorable) and now == before:
                    untold.append(f"{root.strip('_')} {name!r}")
                elif now != before and value is _MISSING:
                    gone.append((root, name))
                elif now != before:
                    changed[root, name] = value
        return (changed, gone), untold

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
            for root, name in (*changed, *gone):
                if self._restored_from.get((root, name), -1) > order:
                    continue
                self._restored_from[root, name] = order
                self._known.pop((root, name), None)
                if (root, name) in changed:
                    dict.__setitem__(self._states[root], name, changed[root, name])
                else:
                    dict.pop(self._states[root], name, None)

    def _touched(self, state: SharedState, name: str) -> None:
        root = next(root for root, each in self._states.items() if each is state)
        with self._lock:
            for hands in self._in_question():
                if (root, name) not in hands.before:
                    hands.before[root, name] = self._as_it_is(state, root, name)

    def _in_question(self) -> Iterator[TouchedNames]:
        """Whose hands these are: the task's of this thread, or of any one that may have started it."""
        own = getattr(self._own, "hands", None)
        return iter([own] if own is not None else list(self._executing))

    def _as_it_is(self, state: SharedState, root: str, name: str) -> object:
        if len(self._executing) == 1 and (root, name) in self._known:
            return self._known[root, name]
        return _fingerprint(dict.get(state, name, _MISSING))


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
