"""The flows of a worker: a folder of Python and YAML files, or a resolver function."""

from __future__ import annotations

import importlib
import importlib.util
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from inspect import cleandoc
from itertools import chain, takewhile
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pyoco.core.models import Flow, Task
from pyoco.dsl.syntax import TaskWrapper

from pyoco_server.errors import ConfigError, FlowNotFound, InvalidCliArgument, InvalidRequest
from pyoco_server.runs.flow_yaml import is_callable_path
from pyoco_server.runs.flow_yaml.flow_order import in_order
from pyoco_server.schedules.schedules_yaml import is_schedules_yaml
from pyoco_server.waits.human.human_task_yaml import check_submitted_flow
from pyoco_server.worker.engine.graph.flow_shape import FlowShape
from pyoco_server.worker.engine.journal.json_values import escape_surrogates
from pyoco_server.worker.flows.callable_policy import CallablePolicy
from pyoco_server.worker.flows.folder_fingerprint import FLOW_FILES, fingerprint_of
from pyoco_server.worker.flows.importing import ImportFailure, described_failure, import_object
from pyoco_server.worker.flows.worker_tasks import FileTask
from pyoco_server.worker.flows.yaml_flow import build_yaml_flow

_UNNAMED: Final = Flow().name  # what pyoco calls a flow that was given no name


class UnknownFlow(FlowNotFound, KeyError):
    """No flow of this name; also a KeyError, as a flow resolver raises it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Source:
    """A variable of a module, or a flow.yaml that is built for each run."""

    file: str
    flow: Flow | None = None
    yaml: bytes = b""
    # What it is for, in the words of its file.
    text: str = ""
    defaults: dict[str, Any] = field(default_factory=dict)


class FlowFolder:
    """The flows of a folder.

    Each `*.py` is imported, and every public variable that holds a pyoco Flow is a flow under the Flow's
    name, or under the variable's if the Flow has none. Each `*.yaml` or `*.yml` is a flow under the file's
    name, except `schedules.yaml`. Files that begin with `_` or `.` are ignored. A file that cannot be loaded
    does not hide the others; of two flows with one name neither is run. A process loads a folder once: when
    `fingerprint` changes, a new process is needed.
    """

    def __init__(self, path: Path | str, policy: CallablePolicy | None = None) -> None:
        self.path = Path(path).resolve()  # a run may change the working directory
        self.failures: dict[str, str] = {}  # file name -> why a flow of it cannot be run
        self._policy = policy or CallablePolicy()
        self._sources: dict[str, list[_Source]] = {}
        self.tasks: dict[str, list[FileTask]] = {}  # the tasks of the Python files, by variable
        self._loaded_files: list[str] = []
        # The fingerprint when it was loaded.
        self.loaded = ""

    @property
    def flows_of_files(self) -> dict[str, list[str]]:
        """The flows of each file that was loaded, also those whose name another file has."""
        found: dict[str, list[str]] = {file: [] for file in self._loaded_files}
        for name, sources in sorted(self._sources.items()):
            for file in dict.fromkeys(source.file for source in sources):
                found[file].append(name)
        return found

    @property
    def names(self) -> list[str]:
        return sorted(name for name, sources in self._sources.items() if len(sources) == 1)

    def load(self) -> None:
        """Import and check every file; errors are in `failures`."""
        if not self.path.is_dir():
            raise ConfigError(f"there is no folder {str(self.path)!r} to load flows from")
        if str(self.path) not in sys.path:
            # Last, so that a file cannot replace a standard module of the same name.
            sys.path.append(str(self.path))
        importlib.invalidate_caches()
        # Before the files are read: a change meanwhile must not count as loaded.
        self.loaded = self.fingerprint()
        self.failures.clear()
        self._sources.clear()
        self.tasks.clear()
        self._loaded_files.clear()
        for file in self._readable_files():
            if file.suffix == ".py":
                self._load_python(file)
            else:
                self._load_yaml(file)
        self._compute_shapes()
        self._alias_unnamed_flow()
        self._report_shared_names()

    def _readable_files(self) -> Iterator[Path]:
        """The files that may contain flows; unreadable ones are in `failures`."""
        try:
            files = sorted(self.path.iterdir())
        except OSError as error:
            raise ConfigError(f"the folder {str(self.path)!r} cannot be read: {error.strerror}") from error
        for file in files:
            if file.name.startswith(("_", ".")) or file.suffix not in FLOW_FILES:
                continue
            try:
                mode = file.stat().st_mode
            except OSError as error:
                self._fail(file.name, f"the file cannot be read: {error.strerror}")
                continue
            if escape_surrogates(file.name) != file.name:
                self._fail(file.name, "the name of the file is not UTF-8; rename it")
            elif stat.S_ISREG(mode):
                yield file

    def resolve(self, flow_name: str) -> Flow:
        """The flow; UnknownFlow names the known flows and the files that failed."""
        source = self._source(flow_name)
        if source.flow is not None:
            return source.flow
        return build_yaml_flow(source.yaml, flow_name, self._policy, self.tasks)[0]

    def defaults(self, flow_name: str) -> dict[str, Any]:
        """The default params of a flow.yaml; a Python flow has none."""
        defaults = self._source(flow_name).defaults
        return deepcopy(defaults) if defaults else {}

    def file_of(self, flow_name: str) -> str:
        """The name of its file."""
        return self._source(flow_name).file

    def text_of(self, flow_name: str) -> str:
        """The docstring of its file, if that has no other flow; of a flow.yaml, its first comment."""
        return self._source(flow_name).text

    def fingerprint(self) -> str:
        """Changes when any Python or YAML file in the folder or below does."""
        return fingerprint_of(self.path)

    @property
    def has_changed(self) -> bool:
        """Whether a file was added, changed or removed after the folder was loaded."""
        return self.loaded != self.fingerprint()

    def _load_python(self, file: Path) -> None:
        try:
            module = _imported_from(file)
        except ImportFailure as exc:
            self._fail(file.name, str(exc))
            return
        self._loaded_files.append(file.name)
        public = {name: value for name, value in vars(module).items() if not name.startswith("_")}
        flows = {name: value for name, value in public.items() if isinstance(value, Flow)}
        text = cleandoc(module.__doc__ or "") if len(flows) == 1 else ""
        for variable, flow in flows.items():
            name = variable if flow.name == _UNNAMED else flow.name
            self._register(name, _Source(file=file.name, flow=flow, text=text))
        for variable, value in public.items():
            if isinstance(value, TaskWrapper | Task):
                self._register_task(variable, file.name, value)

    def _load_yaml(self, file: Path) -> None:
        try:
            if is_schedules_yaml(file):
                return
            content = file.read_bytes()
            defaults = check_submitted_flow(content).defaults
        except (OSError, InvalidRequest) as exc:
            self._fail(file.name, str(exc))
            return
        self._loaded_files.append(file.name)
        text = _first_comment(content)
        self._register(file.stem, _Source(file=file.name, yaml=content, text=text, defaults=defaults))

    def _fail(self, file: str, why: str) -> None:
        # Sent as UTF-8, which file names and exceptions need not be.
        self.failures[escape_surrogates(file)] = escape_surrogates(why)

    def _register(self, name: str, source: _Source) -> None:
        if escape_surrogates(name) != name:
            self._fail(source.file, f"the name {name!r} of a flow has no form in UTF-8; rename it")
            return
        sources = self._sources.setdefault(name, [])
        # A flow that one file imports from another is still one flow.
        if source.flow is None or all(known.flow is not source.flow for known in sources):
            sources.append(source)

    def _register_task(self, name: str, file: str, found: TaskWrapper | Task) -> None:
        task = found.task if isinstance(found, TaskWrapper) else found
        known = self.tasks.setdefault(name, [])
        # A task that one file imports from another is still one task.
        if all(each.task is not task for each in known):
            known.append(FileTask(file, task))

    def _compute_shapes(self) -> None:
        """Before the first run: a task may change a literal that two flows share."""
        for source in chain.from_iterable(self._sources.values()):
            if source.flow is not None:
                FlowShape(source.flow, in_order(source.flow))

    def _alias_unnamed_flow(self) -> None:
        """A single unnamed flow is also found under pyoco's default name."""
        sources = chain.from_iterable(self._sources.values())
        unnamed = {id(found.flow): found for found in sources if found.flow and found.flow.name == _UNNAMED}
        if len(unnamed) == 1:
            self._sources.setdefault(_UNNAMED, list(unnamed.values()))

    def _report_shared_names(self) -> None:
        for name, sources in self._sources.items():
            if len(sources) > 1:
                for source in sources:
                    self.failures[source.file] = _shared_name(name, sources)

    def _source(self, flow_name: str) -> _Source:
        sources = self._sources.get(flow_name, [])
        if len(sources) == 1:
            return sources[0]
        if sources:
            raise UnknownFlow(_shared_name(flow_name, sources))
        message = f"{self.path} has no flow {flow_name!r}; its flows are: {', '.join(self.names) or 'none'}"
        failed = "; ".join(f"{file}: {reason}" for file, reason in self.failures.items())
        raise UnknownFlow(f"{message}. Not loaded: {failed}" if failed else message)


def _first_comment(yaml: bytes) -> str:
    """The lines of the comment that a YAML file begins with."""
    lines = takewhile(lambda line: line.startswith("#"), yaml.decode("utf-8-sig", "replace").splitlines())
    return "\n".join(line.lstrip("#").removeprefix(" ") for line in lines)


def _shared_name(name: str, sources: list[_Source]) -> str:
    files = " and in ".join(source.file for source in sources)
    return f"the name {name!r} is given to more than one flow, in {files}; rename all but one"


def _imported_from(file: Path) -> ModuleType:
    """The file as a module; ImportFailure if it raises or its name belongs to another module."""
    if "." in file.stem:
        raise ImportFailure("a module cannot have a dot in its name; rename the file")
    loaded = sys.modules.get(file.stem)
    spec = importlib.util.find_spec(file.stem) if loaded is None else getattr(loaded, "__spec__", None)
    origin = (spec and spec.origin) or "a module without a file"
    if Path(origin).resolve() != file.resolve():
        raise ImportFailure(f"the name {file.stem!r} already means {origin}; rename the file")
    try:
        with _without_bytecode():
            return importlib.import_module(file.stem)
    except (Exception, SystemExit) as exc:  # a module may do anything while it is imported
        raise ImportFailure(described_failure(exc)) from exc


@contextmanager
def _without_bytecode() -> Iterator[None]:
    """Cached bytecode counts as current by second and size, which a quick edit may not change."""
    before = sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before


def load_resolver(path: str) -> Callable[[str], Flow]:
    """Import `package.module:function`, from the working directory first, or `path/to/file.py:function`."""
    file, _, function = path.rpartition(":")
    is_file = file.endswith(".py") and Path(file).is_file()
    named = f"{Path(file).stem}:{function}" if is_file else path
    if not is_callable_path(named):
        raise InvalidCliArgument(
            f"the resolver {path!r} must have the form 'package.module:function' or "
            "'path/to/file.py:function', with an existing file"
        )
    start = str(Path(file).resolve().parent if is_file else Path.cwd())
    if start not in sys.path:
        sys.path.insert(0, start)
    try:
        found = import_object(named)
    except ImportFailure as exc:
        raise InvalidCliArgument(f"the resolver {path!r} cannot be loaded: {exc}") from exc
    if not callable(found):
        kind = type(found).__name__
        raise InvalidCliArgument(f"the resolver {path!r} cannot be called; it is of type {kind}")
    resolver: Callable[[str], Flow] = found
    return resolver
