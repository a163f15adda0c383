"""Flows that a worker has of its own: a folder of Python and YAML files, or a resolver named by its path."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pyoco.core.models import Flow

from pyoco_server.errors import ConfigError, InvalidCliArgument, InvalidRequest
from pyoco_server.runs.flow_yaml import check_flow_yaml, is_callable_path
from pyoco_server.worker.callable_policy import CallablePolicy
from pyoco_server.worker.flow_errors import UnknownFlow
from pyoco_server.worker.importing import ImportFailure, described_failure, import_object
from pyoco_server.worker.yaml_flow import build_yaml_flow

_UNNAMED: Final = Flow().name  # what pyoco calls a flow that was given no name
_YAML: Final = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a flow comes from: a module's variable, or a flow.yaml that is built for each run."""

    file: str
    flow: Flow | None = None
    yaml: bytes = b""

    def is_same(self, other: _Source) -> bool:
        """A flow that one file imports from another is still one flow."""
        return self.flow is not None and self.flow is other.flow


class FlowFolder:
    """The flows of a folder, loaded as it is.

    Each `*.py` in it (not `_*.py`) is imported, and every public variable that holds a pyoco Flow is a
    flow under the Flow's name; a Flow that was given no name takes the variable's. Each `*.yaml` is a
    flow under the file's name. A file that cannot be loaded does not hide the others. A process loads a
    folder once: for changed files, which `fingerprint` tells, a new process is needed.
    """

    def __init__(self, path: Path | str, policy: CallablePolicy | None = None) -> None:
        self.path = Path(path).resolve()  # runs change the working directory
        self.failures: dict[str, str] = {}  # file name -> why it gave no flow, or not all of its flows
        self._policy = policy or CallablePolicy()
        self._sources: dict[str, list[_Source]] = {}

    def load(self) -> None:
        if not self.path.is_dir():
            raise ConfigError(f"there is no folder {str(self.path)!r} to load flows from")
        if str(self.path) not in sys.path:
            # Last, so that a file called like a standard module cannot take that module's place.
            sys.path.append(str(self.path))
        importlib.invalidate_caches()
        self.failures.clear()
        self._sources.clear()
        unnamed: list[_Source] = []
        for file in sorted(self.path.iterdir()):
            if file.name.startswith(("_", ".")) or not file.is_file():
                continue
            if file.suffix == ".py":
                self._load_python(file, unnamed)
            elif file.suffix in _YAML:
                self._load_yaml(file)
        ...
