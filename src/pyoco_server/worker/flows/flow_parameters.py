"""The parameters of a flow as JSON Schema, from the signatures of its tasks.

pyoco passes a value to each parameter of a task: its input as configured, else the param of the run of that
name, else the result of an earlier task of that name. What neither an input nor an earlier task provides is a
parameter of the flow.
"""

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from pyoco.core.models import Flow, Task
from pyoco.dsl.expressions import Expression
from pyoco.dsl.nodes import DSLNode, ForEachNode, RepeatNode, SubFlowNode, SwitchNode, TaskNode, UntilNode

from pyoco_server.records.nesting import is_json_nested_deeper
from pyoco_server.runs.flow_yaml.flow_order import Links
from pyoco_server.waits.human.answer_types import plain_value
from pyoco_server.worker.engine.tasks.task_calls import WrappedFunction
from pyoco_server.worker.flows.callable_policy import FlowBuildError
from pyoco_server.worker.flows.type_schemas import (
    Definitions,
    Schema,
    nullable,
    resolved_annotation,
    schema_of_annotation,
)

_CONTEXT: Final = "ctx"
_PARAM_INPUT: Final = "$ctx.params."
_PARAM_IN_EXPRESSION: Final = re.compile(r"\$ctx\.params\.(\w+)")
# An output of a task that later tasks find like a param, or like the result of a task.
_OUTPUT_ROOTS: Final = ("params", "results")
_VARIABLE: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
# A larger default, or one that is nested deeper, is not shown.
_MAX_DEFAULT_BYTES: Final = 4096
_MAX_DEFAULT_NESTING: Final = 50


@dataclass(slots=True)
class _Parameter:
    """What all tasks that take it say about it."""

    schemas: list[Schema] = field(default_factory=list)
    defaults: list[Any] = field(default_factory=list)
    # Whether a task that is always executed needs it.
    required: bool = False


def parameters_of(flow: Flow, order: list[str], links: Links, defaults: Mapping[str, Any]) -> Schema:
    """`order` is the names of the tasks, `links` their predecessors, `defaults` those of a flow.yaml.

    FlowBuildError: a task takes a parameter in a way in which none is passed.
    """
    tasks = {task.name: task for task in flow.tasks}
    program = flow.build_program() if flow.has_control_flow() else None
    always = set(tasks) if program is None else set(_always_executed(program))
    found: dict[str, _Parameter] = {}
    reads_any = False
    for name in order:
        task = tasks[name]
        provided = set(_provided_before(name, tasks, links))
        for parameter, entry in _parameters_of_task(task, provided):
            known = found.setdefault(parameter, _Parameter())
            known.schemas += entry.schemas
            known.defaults += entry.defaults
            known.required = known.required or (entry.required and name in always)
        reads_any = reads_any or _reads_any_param(task)
    for parameter in [] if program is None else _in_expressions(program):
        found.setdefault(parameter, _Parameter())
    for parameter, value in defaults.items():
        known = found.setdefault(parameter, _Parameter())
        known.required, known.defaults = False, [value]
    return _object_schema(found, open_ended=reads_any)


def _object_schema(parameters: Mapping[str, _Parameter], *, open_ended: bool) -> Schema:
    definitions = Definitions()
    schema: Schema = {"type": "object"}
    schema["properties"] = {name: _property(parameter, definitions) for name, parameter in parameters.items()}
    if required := [name for name, parameter in parameters.items() if parameter.required]:
        schema["required"] = required
    if not open_ended:
        # No task could read another param.
        schema["additionalProperties"] = False
    if definitions.schemas:
        schema["$defs"] = definitions.schemas
    return schema


def _property(parameter: _Parameter, definitions: Definitions) -> Schema:
    schemas: list[Schema] = []
    for schema in parameter.schemas:
        moved = definitions.moved_from(schema)
        if moved and moved not in schemas:
            schemas.append(moved)
    shown = dict(schemas[0]) if len(schemas) == 1 else {"allOf": schemas} if schemas else {}
    if parameter.defaults and not parameter.required:
        first, *others = map(_json_default, parameter.defaults)
        # Two tasks may differ.
        if first is not msgspec.UNSET and all(each == first for each in others):
            shown["default"] = first
    return shown


def _parameters_of_task(task: Task, provided: set[str]) -> Iterator[tuple[str, _Parameter]]:
    function = _function(task)
    parameters = inspect.signature(function).parameters
    for name, parameter in parameters.items():
        has_default = parameter.default is not parameter.empty
        if parameter.kind is parameter.POSITIONAL_ONLY:
            _check_is_not_passed(task, parameter, provided)
            continue
        if name == _CONTEXT or parameter.kind in _VARIABLE:
            continue
        annotation = resolved_annotation(function, name, parameter.annotation)
        schema = {} if parameter.annotation is parameter.empty else schema_of_annotation(annotation)
        if name in task.inputs:
            if param := _param_of_input(task.inputs[name]):
                yield param, _Parameter(schemas=[schema], required=True)
        elif name not in provided:
            if parameter.default is None and schema:
                schema = nullable(schema)
            defaults = [parameter.default] if has_default else []
            yield name, _Parameter([schema], defaults, required=not has_default)
    for name, value in task.inputs.items():
        # An input of a function that takes any name.
        if name not in parameters and (param := _param_of_input(value)):
            yield param, _Parameter(required=True)


def _check_is_not_passed(task: Task, parameter: inspect.Parameter, provided: set[str]) -> None:
    """Of a parameter that is taken by position only, nothing but its default can be used."""
    name = parameter.name
    is_passed = name == _CONTEXT or name in task.inputs or name in provided
    if is_passed or parameter.default is parameter.empty:
        raise FlowBuildError(
            f"task {task.name!r} takes {name!r} by position only, and values are passed by name: "
            "remove the `/` from its signature"
        )


def _function(task: Task) -> Any:
    return task.func.function if isinstance(task.func, WrappedFunction) else task.func


def _reads_any_param(task: Task) -> bool:
    """Whether its code has the context, and with it all params."""
    return _CONTEXT in inspect.signature(_function(task)).parameters


def _param_of_input(value: Any) -> str | None:
    if isinstance(value, str) and value.startswith(_PARAM_INPUT):
        return value.removeprefix(_PARAM_INPUT)
    return None


def _provided_before(name: str, tasks: Mapping[str, Task], links: Links) -> Iterator[str]:
    """The names of results, and of outputs that are found like them, of the tasks before this one."""
    seen: set[str] = set()
    pending = list(links.get(name, ()))
    while pending:
        earlier = pending.pop()
        if earlier in seen:
            continue
        seen.add(earlier)
        yield earlier
        for output in tasks[earlier].outputs if earlier in tasks else ():
            root, _, path = output.partition(".")
            if root in _OUTPUT_ROOTS and path:
                yield path.partition(".")[0]
        pending += links.get(earlier, ())


def _always_executed(node: DSLNode) -> Iterator[str]:
    """The tasks that every run executes: not those of a branch, or of a loop that may have no iteration."""
    if isinstance(node, TaskNode):
        yield node.task.name
    elif isinstance(node, SubFlowNode):
        for step in node.steps:
            yield from _always_executed(step)
    elif isinstance(node, UntilNode) or (isinstance(node, RepeatNode) and _is_positive(node.count)):
        yield from _always_executed(node.body)


def _is_positive(count: object) -> bool:
    return isinstance(count, int) and count > 0


def _in_expressions(node: DSLNode) -> Iterator[str]:
    """The params that loops and branches read."""
    expressions: list[object] = []
    parts: list[DSLNode] = []
    if isinstance(node, SubFlowNode):
        parts = list(node.steps)
    elif isinstance(node, SwitchNode):
        expressions, parts = [node.expression], [case.target for case in node.cases]
    elif isinstance(node, RepeatNode):
        expressions, parts = [node.count], [node.body]
    elif isinstance(node, ForEachNode):
        expressions, parts = [node.source], [node.body]
    elif isinstance(node, UntilNode):
        expressions, parts = [node.condition], [node.body]
    for expression in expressions:
        if isinstance(expression, Expression):
            yield from _PARAM_IN_EXPRESSION.findall(expression.source)
    for part in parts:
        yield from _in_expressions(part)


def _json_default(value: Any) -> Any:
    """The default in JSON; UNSET if it has no form there, or is too large to be shown."""
    try:
        encoded = msgspec.json.encode(value, enc_hook=plain_value)
        if len(encoded) > _MAX_DEFAULT_BYTES or is_json_nested_deeper(encoded, _MAX_DEFAULT_NESTING):
            return msgspec.UNSET
        return msgspec.json.decode(encoded)
    except Exception:  # noqa: BLE001 - an object of the user may raise anything
        return msgspec.UNSET
