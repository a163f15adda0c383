"""Imports what a text such as `package.module:name` means, and says in one sentence why it cannot."""

from __future__ import annotations

import importlib
import traceback
from pathlib import Path

from pyoco_server.runs.flow_yaml import did_you_mean

# Frames of the import itself, which say nothing about the module.
_IMPORTERS = ("<frozen importlib", str(importlib.__file__), str(Path(__file__).parents[1]))


class ImportFailure(Exception):
    """The module or the name in it cannot be had."""


def import_object(path: str) -> object:
    """The object that `package.module:name` means."""
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
    """What went wrong and, where the code is known, in which line."""
    text = f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__
    if isinstance(exc, SyntaxError):
        return text  # it names its own line, which is not the line of any call
    for frame in reversed(traceback.extract_tb(exc.__traceback__)):
        if not frame.filename.startswith(_IMPORTERS):
            return f"{text} ({Path(frame.filename).name}, line {frame.lineno})"
    return text
