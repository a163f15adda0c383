"""The folders with the code of wheels, on the path that this process imports from."""

import importlib
import os
import sys
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Final

_VARIABLE: Final = "PYTHONPATH"


class CodeFolders:
    """In front of everything else, so that a wheel's version of a package is the one that counts."""

    def __init__(self) -> None:
        self._used: list[str] = []
        self._variable = os.environ.get(_VARIABLE)

    def use(self, folders: Sequence[str]) -> None:
        """Import from these, and no longer from the earlier ones: what came from those is forgotten."""
        if list(folders) == self._used:
            return
        sys.path[:] = [*folders, *(path for path in sys.path if path not in self._used)]
        self._tell_children(folders)
        gone = tuple(os.path.join(folder, "") for folder in self._used if folder not in folders)
        self._used = list(folders)
        importlib.invalidate_caches()
        for name, module in list(sys.modules.items()):
            if gone and any(path.startswith(gone) for path in _paths_of(module)):
                del sys.modules[name]

    def _tell_children(self, folders: Sequence[str]) -> None:
        """A Python that a task starts finds the same code."""
        paths = [*folders, *([self._variable] if self._variable else [])]
        if paths:
            os.environ[_VARIABLE] = os.pathsep.join(paths)
        else:
            os.environ.pop(_VARIABLE, None)


def _paths_of(module: ModuleType) -> Iterable[str]:
    """Where a module was loaded from; a package without a file of its own has folders."""
    file = getattr(module, "__file__", None)
    return [file] if isinstance(file, str) else [str(path) for path in getattr(module, "__path__", ())]
