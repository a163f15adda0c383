"""Imports `package.module:name`, and manages the folders of wheels on the import path."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

from pyoco_server.runs.flow_yaml import did_you_mean

# Frames of the import system itself.
_IMPORTERS = ("<frozen importlib", str(importlib.__file__), str(Path(__file__).parents[1]))
_PYTHONPATH: Final = "PYTHONPATH"


class ImportFailure(Exception):
    """The module cannot be imported, or has no such name."""


def import_object(path: str) -> object:
    module_name, _, name = path.partition(":")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as exc:  # a module may do anything while it is imported
        raise ImportFailure(_why_not_imported(module_name, exc)) from exc
    try:
        return getattr(module, name)
    except AttributeError as exc:
        hint = did_you_mean(name, [known for known in vars(module) if not known.startswith("_")])
        raise ImportFailure(f"the module {module_name!r} has no {name!r}{hint}") from exc


def _why_not_imported(module_name: str, exc: BaseException) -> str:
    missing = exc.name if isinstance(exc, ModuleNotFoundError) else None
    if missing is not None and (missing == module_name or module_name.startswith(f"{missing}.")):
        return f"there is no module {missing!r} on this worker"
    return f"the module {module_name!r} cannot be imported: {described_failure(exc)}"


def described_failure(exc: BaseException) -> str:
    """The error and, if known, its file and line."""
    text = f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__
    if isinstance(exc, SyntaxError):
        return text  # it names its own line, which is not the line of any call
    for frame in reversed(traceback.extract_tb(exc.__traceback__)):
        if not frame.filename.startswith(_IMPORTERS):
            return f"{text} ({Path(frame.filename).name}, line {frame.lineno})"
    return text


class CodeFolders:
    """Folders first on the import path, so that a wheel's version of a package takes precedence."""

    def __init__(self) -> None:
        self._used: list[str] = []
        self._variable = os.environ.get(_PYTHONPATH)

    def use(self, folders: Sequence[str]) -> None:
        """Replace the earlier folders, and unload the modules that came from them."""
        if list(folders) == self._used:
            return
        sys.path[:] = [*folders, *(path for path in sys.path if path not in self._used)]
        self._set_variable(folders)
        removed = tuple(os.path.join(folder, "") for folder in self._used if folder not in folders)
        self._used = list(folders)
        importlib.invalidate_caches()
        for name, module in list(sys.modules.items()):
            if removed and any(path.startswith(removed) for path in _paths_of(module)):
                del sys.modules[name]

    def _set_variable(self, folders: Sequence[str]) -> None:
        """A Python process that a task starts imports the same code."""
        paths = [*folders, *([self._variable] if self._variable else [])]
        if paths:
            os.environ[_PYTHONPATH] = os.pathsep.join(paths)
        else:
            os.environ.pop(_PYTHONPATH, None)


def _paths_of(module: ModuleType) -> Iterable[str]:
    """Where a module was loaded from; a namespace package has folders instead of a file."""
    file = getattr(module, "__file__", None)
    return [file] if isinstance(file, str) else [str(path) for path in getattr(module, "__path__", ())]
