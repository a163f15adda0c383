"""What a task changed in its flow's shared state: scratch, params and variables.

A finished task that is not executed again must leave the same state behind, or the flow would go on
differently. Changes are told per top-level name: the new value as a whole, or that the name is gone.
"""

import pickle
import threading
from hashlib import blake2b
from typing import Any

from pyoco.core.context import Context

_AS_THEY_ARE = (str, int, float, bool, bytes, type(None))
# A digest is kept instead of a longer value.
_LONGEST_KEPT = 256
_SHARED = ("scratch", "params", "_vars")

Name = tuple[str, str]
# Names with their new values, and names that are gone.
Changes = tuple[dict[Name, Any], list[Name]]


class ContextChanges:
    """Compares the shared state with how it was when last looked at."""

    def __init__(self) -> None:
        self._looking = threading.Lock()
        self._known: dict[Name, object] = {}
        # Names that the engine itself wrote after a task: no later task's doing.
        self._written_by_engine: set[Name] = set()

    def begin(self, context: Context) -> None:
        """Take the state as it is now; changes are counted from here."""
        with self._looking:
            self._known = {name: _fingerprint(value) for name, value in _state(context).items()}

    def before_task(self, context: Context) -> None:
        with self._looking:
            state = _state(context)
            for name in self._written_by_engine & state.keys():
                self._known[name] = _fingerprint(state[name])
            self._written_by_engine.clear()

    def expect_outputs(self, targets: list[str]) -> None:
        """The engine is about to save a task's result under these paths."""
        with self._looking:
            for target in targets:
                root, _, path = target.partition(".")
                self._written_by_engine.add((root, path.partition(".")[0]))

    def since_last_look(self, context: Context) -> Changes:
        with self._looking:
            state = _state(context)
            now = {name: _fingerprint(value) for name, value in state.items()}
            changed = {
                name: state[name] for name, mark in now.items() if self._known.get(name, _fingerprint) != mark
            }
            gone = [name for name in self._known if name not in now]
            self._known = now
        return changed, gone

    def apply(self, context: Context, changes: Changes) -> None:
        """Have the state as a finished task left it."""
        changed, gone = changes
        with self._looking:
            for (root, name), value in changed.items():
                getattr(context, root)[name] = value
                self._known[root, name] = _fingerprint(value)
            for root, name in gone:
                getattr(context, root).pop(name, None)
                self._known.pop((root, name), None)


def _state(context: Context) -> dict[Name, Any]:
    # Copies: a task of a parallel branch may be changing the originals.
    return {(root, name): value for root in _SHARED for name, value in dict(getattr(context, root)).items()}


def _fingerprint(value: Any) -> object:
    if type(value) in _AS_THEY_ARE and (not isinstance(value, str | bytes) or len(value) <= _LONGEST_KEPT):
        return type(value), value
    try:
        return blake2b(pickle.dumps(value, protocol=5)).digest()
    except Exception:  # noqa: BLE001 - a value that cannot be stored; which object it is can still be told
        return id(value)
