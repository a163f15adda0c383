"""The only module that relies on undocumented parts of pyoco.

What it needs is checked once. Without the private hooks of the engine, loops and branches run through
`Engine.run`, which keeps all output of a run in memory. Without the context's state no journal can be kept,
and the worker does not start.
"""

import inspect
import io
import os
from collections import ChainMap
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import fields
from functools import cache, partial
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any, Final

from pyoco.core.context import Context
from pyoco.core.engine import Engine
from pyoco.core.models import Flow, RunContext, Task, TaskRecord
from pyoco.discovery.loader import TaskLoader
from pyoco.dsl.expressions import Expression
from pyoco.trace.backend import TraceBackend

from pyoco_server.errors import ConfigError
from pyoco_server.records.runs.artifact_models import ARTIFACTS
from pyoco_server.telemetry.fast_paths import report_fast_path
from pyoco_server.worker.engine.graph import expressions

# The attribute of a context that has the variables of loops. Journal entries name it.
VARIABLES: Final = "_vars"
# What the engine reports for tasks that can never start. Users know the text.
DEADLOCK: Final = "Deadlock or cycle detected in workflow"

_REQUIRED: Final[dict[type, set[str]]] = {
    Context: {"params", "results", "scratch", "env", "artifact_dir", "run_context", VARIABLES},
    RunContext: {"run_id", "flow_name", "params", "status", "tasks", "task_records"},
    TaskRecord: {"state", "started_at", "ended_at", "duration_ms", "error", "traceback", "inputs", "output"},
}
_HOOKS: Final = {
    "_run_flow": ["self", "flow", "ctx", "run_ctx", "log_capture"],
    "_execute_task": ["self", "task", "ctx", "log_capture"],
    "_eval_expression": ["self", "expression", "ctx"],
}

ExecuteTask = Callable[[Task, Context], None]


def check_support() -> None:
    """Raise ConfigError if pyoco lacks something that the journal needs; report which way loops take."""
    missing = [
        f"{owner.__name__}.{name}"
        for owner, names in _REQUIRED.items()
        for name in sorted(names - {field.name for field in fields(owner)})
    ]
    if not {"flow", "params", "run_context"} <= inspect.signature(Engine.run).parameters.keys():
        missing.append("Engine.run(flow, params, run_context)")
    if missing:
        raise ConfigError(f"pyoco {version('pyoco')} is not supported: it has no {', '.join(missing)}")
    has_engine_hooks()


@cache
def has_engine_hooks() -> bool:
    """Whether the private methods of the engine are as expected; checked and reported once per process."""
    differing = [name for name, expected in _HOOKS.items() if _parameters(name) != expected]
    return report_fast_path("pyoco", f"Engine.{differing[0]}" if differing else None)


def _parameters(method: str) -> list[str] | None:
    found = getattr(Engine, method, None)
    return None if found is None else list(inspect.signature(found).parameters)


class _NoTrace(TraceBackend):  # type: ignore[misc]
    """The engine requires a trace backend; the run context says the same."""

    def on_flow_start(self, flow_name: str, run_id: str | None = None) -> None: ...
    def on_flow_end(self, flow_name: str) -> None: ...
    def on_node_start(self, node_name: str) -> None: ...
    def on_node_end(self, node_name: str, duration_ms: float) -> None: ...
    def on_node_error(self, node_name: str, error: Exception) -> None: ...


class FlowContext(Context):  # type: ignore[misc]
    """The engine's context, without a `mkdir` for each run: the executor has made the folder."""

    def __post_init__(self) -> None:
        self.artifact_dir = f"./{ARTIFACTS}"

    def resolve(self, value: Any) -> Any:
        return expressions.resolve_input(value, super().resolve)


class _HookedEngine(Engine):  # type: ignore[misc]
    def __init__(self, execute_task: ExecuteTask) -> None:
        super().__init__(trace_backend=_NoTrace())
        self._execute = execute_task

    def run_loops(self, flow: Flow, context: Context, run: RunContext) -> None:
        # Without a log capture, which would keep all that the tasks print in memory.
        self._run_flow(flow, context, run, None)

    def _execute_task(self, task: Task, ctx: Context, log_capture: Any = None) -> None:
        self._execute(task, ctx)

    def _eval_expression(self, expression: Any, ctx: Context) -> Any:
        if not isinstance(expression, Expression):
            return expression
        return expressions.evaluate(expression, ctx.expression_data(), ChainMap(ctx.env, os.environ))


def run_loops(flow: Flow, params: dict[str, Any], run: RunContext, execute_task: ExecuteTask) -> None:
    """Run a flow with loops or branches to its end; its tasks are wrapped functions in either way."""
    if has_engine_hooks():
        context = FlowContext(params=params, run_context=run)
        _HookedEngine(execute_task).run_loops(flow, context, run)
    else:
        with _bounded_evaluation():
            Engine(trace_backend=_NoTrace()).run(flow, params, run)


@contextmanager
def _bounded_evaluation() -> Iterator[None]:
    """For the engine's own contexts and expressions, which cannot be replaced by ours."""
    resolve, evaluate = Context.resolve, Expression.evaluate
    Context.resolve = lambda self, value: expressions.resolve_input(value, partial(resolve, self))
    Expression.evaluate = expressions.evaluate
    try:
        yield
    finally:
        Context.resolve, Expression.evaluate = resolve, evaluate


def discover_plugin_tasks() -> tuple[dict[str, Task], list[str]]:
    """The tasks of installed plug-ins and PYOCO_DISCOVERY_MODULES, and what pyoco printed about failures."""
    loader = TaskLoader(SimpleNamespace(tasks={}))  # no declared tasks: pyoco imports no callable
    printed = io.StringIO()
    with redirect_stdout(printed):
        loader.load()
    return dict(loader.tasks), [line for line in printed.getvalue().splitlines() if line.strip()]
