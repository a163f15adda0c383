"""The task `use: pyoco/human` of a flow.yaml, whose inputs are the arguments of `ctx.human`.

Literal inputs are checked when the file is submitted, references when the task runs.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from pyoco_server.runs import flow_yaml
from pyoco_server.runs.flow_yaml import CheckedFlow, did_you_mean, is_reference
from pyoco_server.waits.human.asking import MAX_ASSIGNEES, question
from pyoco_server.waits.wait_task_yaml import WAIT_TASK_CHECKS, WAIT_TASKS

HUMAN_TASK: Final = "pyoco/human"
# Of all questions of a file: checking this much takes about a second.
MAX_SCHEMA_BYTES: Final = 64 * 1024

_INPUTS: Final = (
    "message",
    "schema",
    "timeout_ms",
    "name",
    "proposal",
    "assignees",
    "default",
    "details",
    "required",
    "self_approval",
    *("notify", "remind_after_ms", "escalate_after_ms", "escalate_to"),
)


class SlowSchemaCheck(Exception):
    """The file contains schemas, so that checking it would block the event loop."""


def check_submitted_flow(source: bytes, *, fast_only: bool = False) -> CheckedFlow:
    """The flow, or InvalidRequest with the field, line and column of each error.

    With `fast_only`, SlowSchemaCheck is raised for a file that should be checked in a thread.
    """
    questions = Questions(fast_only=fast_only)
    return flow_yaml.check_flow_yaml(source, {HUMAN_TASK: questions.problems_in, **WAIT_TASK_CHECKS})


def ask(ctx: Any, **inputs: Any) -> Any:
    """The task itself. It names only `ctx`: the engine would fill other arguments from params of the run."""
    return ctx.human(**{name: value for name, value in inputs.items() if name in _INPUTS})


# The tasks that the server itself provides.
BUILT_IN_TASKS: Final[Mapping[str, Callable[..., Any]]] = {HUMAN_TASK: ask, **WAIT_TASKS}


class Questions:
    def __init__(self, *, fast_only: bool = False) -> None:
        self._fast_only = fast_only
        self._schema_bytes = 0
        self._valid: set[bytes] = set()

    def problems_in(self, inputs: dict[str, Any]) -> Iterator[tuple[str, str]]:
        """The invalid inputs of one question, each with the reason."""
        for name in inputs:
            if name not in _INPUTS:
                hint = did_you_mean(name, _INPUTS) or f"; the inputs of {HUMAN_TASK} are {', '.join(_INPUTS)}"
                yield name, f"this input is not known{hint}"
        if "message" not in inputs:
            yield "message", "is missing; it says what the person is asked"
        for name in _INPUTS:
            if name not in inputs or is_reference(inputs[name]):
                continue
            value = inputs[name]
            if _has_reference(value):
                yield (
                    name,
                    "a reference must be a whole input, not a part of one; build the value in a task",
                )
            elif (
                problem := self._schema_problem(value) if name == "schema" else _problem(name, value, inputs)
            ):
                yield name, problem

    def _schema_problem(self, schema: Any) -> str | None:
        if self._fast_only and schema is not None:
            raise SlowSchemaCheck
        written = msgspec.json.encode(schema)
        if written in self._valid:
            return None
        self._schema_bytes += len(written)
        if self._schema_bytes > MAX_SCHEMA_BYTES:
            return f"the schemas of a file are longer than {MAX_SCHEMA_BYTES} bytes; ask with ctx.human"
        problem = _problem("schema", schema, {})
        if problem is None:
            self._valid.add(written)
        return problem


def _problem(name: str, value: Any, inputs: Mapping[str, Any]) -> str | None:
    """What is wrong with one input.

    The worker checks the proposal against its schema: such a check may be slow, and would block here.
    """
    if name == "details":
        return None if isinstance(value, bool) else "expected true or false"
    # What decides whether several people can approve; not the whole schema, whose check may be slow.
    schema = inputs.get("schema")
    is_yes_or_no = is_reference(schema) or (isinstance(schema, dict) and schema.get("type") == "boolean")
    context: dict[str, Any] = {"schema": {"type": "boolean"}} if is_yes_or_no else {}
    if "proposal" in inputs:
        context = {"proposal": 1}
    required = inputs.get("required")
    if name == "assignees" and context and isinstance(required, int) and 1 < required <= MAX_ASSIGNEES:
        context["required"] = required
    elif name != "required":
        context = {}
    try:
        question(**{"message": "?", **context, name: value}, node="", task="")
    except (ValueError, TypeError) as error:
        # Without the call, which is not part of a flow.yaml.
        return str(error).partition("): ")[2]
    return None


def _has_reference(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_reference, value.values()))
    if isinstance(value, list):
        return any(map(_has_reference, value))
    return is_reference(value)
