"""The options of a task in a Python flow: `@task_options(retries=3)` above `@task`."""

from collections.abc import Callable
from typing import Any, Final

from pyoco.core.models import Flow, Task
from pyoco.dsl.syntax import TaskWrapper

from pyoco_server.runs.flow_yaml import OPTIONS

_OPTIONS: Final = {
    **OPTIONS,
    "trigger_policy": (lambda value: value in ("ALL", "ANY"), "'ALL' or 'ANY'"),
}


def task_options(
    *,
    retries: int | None = None,
    timeout_sec: float | None = None,
    fail_policy: str | None = None,
    trigger_policy: str | None = None,
    result: bool | None = None,
) -> Callable[[TaskWrapper], TaskWrapper]:
    """Set options of a task; those that are not given stay as they are.

    With `result=True`, what this task returns is the result of the run.
    """
    given: dict[str, Any] = {
        "retries": retries,
        "timeout_sec": timeout_sec,
        "fail_policy": fail_policy,
        "trigger_policy": trigger_policy,
        "result": result,
    }
    given = {option: value for option, value in given.items() if value is not None}
    for option, value in given.items():
        is_valid, expected = _OPTIONS[option]
        if not is_valid(value):
            raise ValueError(f"task_options({option}={value!r}): {option} must be {expected}")

    def apply(decorated: TaskWrapper) -> TaskWrapper:
        if not isinstance(decorated, TaskWrapper):
            raise TypeError("task_options(): write it above @task, since it changes the task")
        for option, value in given.items():
            setattr(decorated.task, option, value)
        return decorated

    return apply


def invalid_option(flow: Flow) -> str | None:
    """Why the options of a flow's task cannot be used; they are plain attributes, which may hold anything."""
    for task in flow.tasks:
        if not isinstance(task.retries, int):
            return _message(task, "retries", "a whole number")
        if task.timeout_sec is not None and not isinstance(task.timeout_sec, int | float):
            return _message(task, "timeout_sec", "a number of seconds, or None")
    results = sorted(task.name for task in flow.tasks if getattr(task, "result", False))
    if len(results) > 1:
        return f"result=True is for one task of a flow, not for {', '.join(results)}"
    return None


def _message(task: Task, option: str, expected: str) -> str:
    return f"task {task.name!r}: {option} must be {expected}, not {getattr(task, option)!r}"
