"""A question to a person in a flow.yaml, with no Python: `use: pyoco/human`.

Its inputs are the arguments of `ctx.human`. What is written in the file is checked when the file is
submitted; what a reference stands for, when the task asks.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from pyoco_server.human.asking import question
from pyoco_server.runs import flow_yaml
from pyoco_server.runs.flow_yaml import CheckedFlow, did_you_mean, is_reference

HUMAN_TASK: Final = "pyoco/human"
# Of all questions of a file together: checking this much takes about a second.
MAX_SCHEMA_BYTES: Final = 64 * 1024

_INPUTS: Final = ("message", "schema", "timeout_ms", "name", "proposal", "assignees", "default")


class TakesTime(Exception):
    """The file has schemas in it: checking it would keep others waiting."""


def check_flow_yaml(source: bytes, *, at_once: bool = False) -> CheckedFlow:
    """The flow, or InvalidRequest with the field, line and column of everything that is wrong.

    Whoever has it checked `at_once` is told with TakesTime that it had better be done elsewhere.
    """
    return flow_yaml.check_flow_yaml(source, {HUMAN_TASK: Questions(at_once=at_once).problems_in})


def ask(ctx: Any, **inputs: Any) -> Any:
    """The task itself.

    It names no argument but `ctx`: the engine would fill it from a param of the run that has this name.
    """
    return ctx.human(**{name: value for name, value in inputs.items() if name in _INPUTS})


class Questions:
    """The questions of one file."""

    def __init__(self, *, at_once: bool = False) -> None:
        self._at_once = at_once
        self._schema_bytes = 0
        self._sound: set[bytes] = set()

    def problems_in(self, inputs: dict[str, Any]) -> Iterator[tuple[str, str]]:
        """Which input of a question is wrong, and why."""
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
                    "a reference stands for a whole input, and not for a part of one; make it in a task",
                )
            elif problem := self._schema_problem(value) if name == "schema" else _problem(name, value):
                yield name, problem

    def _schema_problem(self, schema: Any) -> str | None:
        """The same schema may be there for many questions, by an alias or by `use`."""
        if self._at_once and schema is not None:
            raise TakesTime
        written = msgspec.json.encode(schema)
        if written in self._sound:
            return None
        self._schema_bytes += len(written)
        if self._schema_bytes > MAX_SCHEMA_BYTES:
            return f"the schemas of a file are longer than {MAX_SCHEMA_BYTES} bytes; ask with ctx.human"
        problem = _problem("schema", schema)
        if problem is None:
            self._sound.add(written)
        return problem


def _problem(name: str, value: Any) -> str | None:
    """What is wrong with one input by itself.

    Whether a proposal matches its schema is for the worker to find: a schema may have patterns in it that
    take for ever, and the gateway has others to serve.
    """
    try:
        question(**{"message": "?", name: value}, node="", task="")
    except (ValueError, TypeError) as error:
        # It begins with the call that the author of a flow.yaml does not see.
        return str(error).partition("): ")[2]
    return None


def _has_reference(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_reference, value.values()))
    if isinstance(value, list):
        return any(map(_has_reference, value))
    return is_reference(value)
