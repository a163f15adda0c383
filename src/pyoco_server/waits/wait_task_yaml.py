"""The tasks `use: pyoco/sleep`, `pyoco/signal` and `pyoco/event` of a flow.yaml.

Their inputs are the arguments of `ctx.sleep`, `ctx.wait_for_signal` and `ctx.wait_for_event`. Literal inputs
are checked when the file is submitted, references when the task runs.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from pyoco_server.records.runs.run_models import WaitKind
from pyoco_server.runs.flow_yaml import InputCheck, did_you_mean, is_reference
from pyoco_server.waits.wait_arguments import seconds_to_sleep, topic_question

_SLEEP_INPUTS: Final = ("seconds", "until")
_SIGNAL_INPUTS: Final = ("name", "timeout_sec", "default")
_EVENT_INPUTS: Final = ("name", "match", "timeout_sec", "default")


# The tasks themselves. They name only `ctx`: the engine would fill other arguments from params of the run.


def sleep(ctx: Any, **inputs: Any) -> None:
    ctx.sleep(**_given(inputs, _SLEEP_INPUTS))


def wait_for_signal(ctx: Any, **inputs: Any) -> Any:
    return ctx.wait_for_signal(**_given(inputs, _SIGNAL_INPUTS))


def wait_for_event(ctx: Any, **inputs: Any) -> Any:
    given = _given(inputs, _EVENT_INPUTS)
    if isinstance(match := given.get("match"), dict):
        # The engine resolves whole inputs only.
        given["match"] = {at: ctx.resolve(each) if is_reference(each) else each for at, each in match.items()}
    return ctx.wait_for_event(**given)


def _given(inputs: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in inputs.items() if name in names}


# The checks of their inputs: the name of an invalid one, and the reason.


def _sleep_problems(inputs: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield from _unknown("pyoco/sleep", inputs, _SLEEP_INPUTS)
    given = [name for name in _SLEEP_INPUTS if name in inputs]
    if len(given) != 1:
        yield "until" if given else "seconds", "expected either seconds or until, and not both"
        return
    [name] = given
    if not is_reference(inputs[name]):
        seconds, until = (inputs[name], None) if name == "seconds" else (None, inputs[name])
        if problem := _problem(lambda: seconds_to_sleep(seconds, until, now=time.time())):
            yield name, problem


def _topic_problems(
    kind: WaitKind, names: tuple[str, ...], inputs: dict[str, Any]
) -> Iterator[tuple[str, str]]:
    yield from _unknown(f"pyoco/{kind}", inputs, names)
    if "name" not in inputs:
        yield "name", f"is missing; it is the name of the {kind}"
    valid = {"topic": "any", "timeout_sec": None, "default": None, "match": None}
    for name in names:
        if name in inputs and not is_reference(inputs[name]):
            arguments = {**valid, "topic" if name == "name" else name: inputs[name]}
            check = partial(topic_question, kind, node="", task="", name="", **arguments)
            if problem := _problem(check):
                yield name, problem


def _unknown(task: str, inputs: Mapping[str, Any], names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for name in inputs:
        if name not in names:
            hint = did_you_mean(name, names) or f"; the inputs of {task} are {', '.join(names)}"
            yield name, f"this input is not known{hint}"


def _problem(check: Callable[[], object]) -> str | None:
    try:
        check()
    except (ValueError, TypeError) as error:
        # Without the call, which is not part of a flow.yaml.
        return str(error).partition("): ")[2]
    return None


WAIT_TASKS: Final[Mapping[str, Callable[..., Any]]] = {
    "pyoco/sleep": sleep,
    "pyoco/signal": wait_for_signal,
    "pyoco/event": wait_for_event,
}
WAIT_TASK_CHECKS: Final[Mapping[str, InputCheck]] = {
    "pyoco/sleep": _sleep_problems,
    "pyoco/signal": partial(_topic_problems, WaitKind.SIGNAL, _SIGNAL_INPUTS),
    "pyoco/event": partial(_topic_problems, WaitKind.EVENT, _EVENT_INPUTS),
}
