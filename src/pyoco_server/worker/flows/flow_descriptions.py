"""Describes the flows of a folder: their tasks, graph and parameters, for the catalogue of the worker."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Final

import msgspec
from msgspec import Raw
from pyoco.core.models import Flow, Task

from pyoco_server.errors import PyocoError
from pyoco_server.records.workers.flow_models import (
    MAX_CATALOGUE_BYTES,
    FlowCatalogue,
    FlowDescription,
    TaskDescription,
    encode_catalogue,
)
from pyoco_server.runs.flow_yaml.flow_order import in_order, predecessors
from pyoco_server.worker.engine.journal.json_values import escape_surrogates
from pyoco_server.worker.engine.tasks.task_calls import WrappedFunction
from pyoco_server.worker.flows.flow_files import FlowFolder
from pyoco_server.worker.flows.flow_parameters import parameters_of
from pyoco_server.worker.flows.importing import described_failure

_MAX_FLOW_BYTES: Final = 64 * 1024
_MAX_NAME_CHARS: Final = 200
_MAX_TEXT_CHARS: Final = 1000


def described_flows(folder: FlowFolder | None, version: str, earlier: Mapping[str, Sequence[str]]) -> bytes:
    """The encoded catalogue of the folder; without a folder, of no flows.

    `earlier` are the flows that each file had when it could be loaded.
    """
    flows = [] if folder is None else [*_descriptions(folder), *_failed_flows(folder, earlier)]
    encoded = encode_catalogue(FlowCatalogue(version=version, flows=flows))
    if len(encoded) <= MAX_CATALOGUE_BYTES:
        return encoded
    problem = f"the descriptions of all flows of this worker are larger than {MAX_CATALOGUE_BYTES} bytes"
    names = [FlowDescription(name=flow.name, file=flow.file, problem=problem) for flow in flows]
    return encode_catalogue(FlowCatalogue(version=version, flows=names))


def _descriptions(folder: FlowFolder) -> Iterator[FlowDescription]:
    for name in filter(_can_be_named, folder.names):
        description = _description(folder, name)
        if len(msgspec.json.encode(description)) > _MAX_FLOW_BYTES:
            problem = f"the description of this flow is larger than {_MAX_FLOW_BYTES} bytes"
            description = FlowDescription(name=name, file=description.file, problem=problem)
        yield description


def _failed_flows(folder: FlowFolder, earlier: Mapping[str, Sequence[str]]) -> Iterator[FlowDescription]:
    """Those that cannot be run because of their file; of a file that was never loaded, one of its name."""
    loaded, listed = folder.flows_of_files, set(folder.names)
    for file, why in sorted(folder.failures.items()):
        names = loaded.get(file, earlier.get(file, [PurePath(file).stem]))
        for name in filter(_can_be_named, names):
            if name not in listed:
                listed.add(name)
                yield FlowDescription(name=name, file=file, problem=_text(why))


def _can_be_named(name: str) -> bool:
    """Whether a run can name the flow."""
    return len(name) <= _MAX_NAME_CHARS and name.isprintable()


def _description(folder: FlowFolder, name: str) -> FlowDescription:
    text = _text(folder.text_of(name))
    description = FlowDescription(name=name, file=folder.file_of(name), description=text)
    try:
        # This imports the functions that a flow.yaml names.
        flow = folder.resolve(name)
        order, links = in_order(flow), predecessors(flow)
        tasks = {task.name: task for task in flow.tasks}
        description.tasks = [
            TaskDescription(
                name=escape_surrogates(task),
                description=_docstring(tasks[task]),
                after=list(map(escape_surrogates, links.get(task, ()))),
            )
            for task in order
        ]
        description.description = description.description or _text_of_single_task(flow)
        description.parameters = Raw(
            msgspec.json.encode(parameters_of(flow, order, links, folder.defaults(name)))
        )
    except PyocoError as error:
        description.problem = _text(error.detail or "; ".join(map(str, error.problems)))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - imported modules, and models, are code of users
        description.problem = _text(described_failure(error))
    return description


def _text_of_single_task(flow: Flow) -> str:
    return _docstring(next(iter(flow.tasks))) if len(flow.tasks) == 1 else ""


def _docstring(task: Task) -> str:
    function = task.func.function if isinstance(task.func, WrappedFunction) else task.func
    # A built-in task has a docstring for developers of the server.
    is_built_in = str(getattr(function, "__module__", "")).startswith("pyoco_server.")
    return "" if is_built_in else _text(inspect.getdoc(function) or "")


def _text(text: str) -> str:
    text = escape_surrogates(text.strip())
    return text if len(text) <= _MAX_TEXT_CHARS else f"{text[: _MAX_TEXT_CHARS - 1]}…"
