"""pyoco's engine, quieter and quicker.

It tells no trace and keeps no output in memory, since we read its run context and hear its tasks ourselves;
a plain chain of tasks needs no threads, a graph of them has a scheduler of ours, a task's parameters are
known from when its function was wrapped, and the folder it works in is made by whoever runs it.
"""

import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

from pyoco.core.context import Context
from pyoco.core.engine import Engine
from pyoco.core.models import Flow, RunContext, RunStatus, Task, TaskRecord, TaskState
from pyoco.trace.backend import TraceBackend

from pyoco_server.worker.engine.task_calls import CallingContext, WrappedFunction
from pyoco_server.worker.engine.task_graph import TaskGraph

# The folder for a flow's artifacts, in its working directory.
ARTIFACTS = "artifacts"


class _Quiet(TraceBackend):  # type: ignore[misc]
    """The engine insists on telling somebody; we read its run context instead."""

    def on_flow_start(self, flow_name: str, run_id: str | None = None) -> None: ...
    def on_flow_end(self, flow_name: str) -> None: ...
    def on_node_start(self, node_name: str) -> None: ...
    def on_node_end(self, node_name: str, duration_ms: float) -> None: ...
    def on_node_error(self, node_name: str, error: Exception) -> None: ...


class FlowContext(Context):  # type: ignore[misc]
    """The engine's context, without making a folder each time."""

    def __post_init__(self) -> None:
        self.artifact_dir = f"./{ARTIFACTS}"


class ServerEngine(Engine):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__(trace_backend=_Quiet())

    def run(
        self,
        flow: Flow,
        params: dict[str, Any],
        run_context: RunContext,
        on_context: Callable[[Context], None],
        give_up: Callable[[set[str]], None],
    ) -> Context:
        """As the engine's own, but for the capture of output; `on_context` sees the context first.

        `give_up` is told the tasks whose questions to people do not matter any more.
        """
        run_context.flow_name = flow.name
        run_context.params = params
        for task in flow.tasks:
            run_context.tasks[task.name] = TaskState.PENDING
            run_context.ensure_task_record(task.name)
        context = FlowContext(params=params, run_context=run_context)
        on_context(context)
        if flow.has_control_flow():
            return self._run_flow(flow, context, run_context, None)
        chain = _chain(flow)
        if chain is not None:
            return self._run_chain(chain, context, run_context)
        execute = partial(self._execute_task, ctx=context)
        TaskGraph(flow, run_context, execute=execute, give_up=give_up).run()
        return context

    def _run_chain(self, chain: list[Task], ctx: Context, run_ctx: RunContext) -> Context:
        """What the engine's scheduler does for tasks one after the other, without its thread pool."""
        try:
            for task in chain:
                if run_ctx.status is not RunStatus.RUNNING:
                    self._mark_pending_tasks_cancelled(run_ctx)
                    run_ctx.status = RunStatus.CANCELLED
                    return ctx
                self._execute_task(task, ctx)
        except Exception:
            run_ctx.status = RunStatus.FAILED
            raise
        if run_ctx.status is RunStatus.RUNNING:
            run_ctx.status = RunStatus.COMPLETED
        return ctx

    def _execute_task(self, task: Task, ctx: Context, log_capture: Any = None) -> None:
        function, run = task.func, ctx.run_context
        try:
            if isinstance(function, WrappedFunction) and isinstance(run, CallingContext) and not task.outputs:
                _execute(task, function, ctx, run)
            else:
                # The engine would keep all that a task prints in memory; TaskOutput hears it instead.
                super()._execute_task(task, ctx, None)
        except BaseException as error:
            if isinstance(run, CallingContext):
                run.calls.raised(error, task.name)
            raise


def _execute(task: Task, function: WrappedFunction, ctx: Context, run: CallingContext) -> None:
    """As the engine does, without looking at the function's signature each time."""
    name = task.name
    run.tasks[name] = TaskState.RUNNING
    record = run.ensure_task_record(name)
    record.state = TaskState.RUNNING
    record.started_at = time.time()
    record.error = record.traceback = None
    try:
        inputs = {key: ctx.resolve(value) for key, value in task.inputs.items()}
        # Whatever it was to be, it is the flow's context.
        inputs.pop("ctx", None)
        for parameter in function.parameters:
            if parameter not in inputs:
                if parameter in ctx.params:
                    inputs[parameter] = ctx.params[parameter]
                elif parameter in ctx.results:
                    inputs[parameter] = ctx.results[parameter]
        record.inputs = inputs
        result = run.calls.execute(function, ctx, inputs)
    except Exception as error:
        record.state = TaskState.FAILED
        _note_end(record)
        record.error = str(error)
        record.traceback = traceback.format_exc()
        run.tasks[name] = TaskState.FAILED
        raise
    ctx.set_result(name, result)
    run.tasks[name] = record.state = TaskState.SUCCEEDED
    _note_end(record)
    record.output = result


def _note_end(record: TaskRecord) -> None:
    record.ended_at = time.time()
    record.duration_ms = (record.ended_at - record.started_at) * 1000


def _chain(flow: Flow) -> list[Task] | None:
    """The tasks in order, if they are one plain chain that stops at the first failure."""
    if len(flow.tasks) == 1:
        [task] = flow.tasks
        alone = not task.dependencies and not task.dependents and task.fail_policy != "isolate"
        return [task] if alone else None
    first = [task for task in flow.tasks if not task.dependencies]
    if len(first) != 1:
        return None
    chain = [first[0]]
    while dependents := chain[-1].dependents:
        following = next(iter(dependents))
        if len(dependents) > 1 or len(following.dependencies) > 1 or len(chain) > len(flow.tasks):
            return None
        chain.append(following)
    plain = all(task in flow.tasks and task.fail_policy != "isolate" for task in chain)
    return chain if plain and len(chain) == len(flow.tasks) else None
