"""Runs a flow as pyoco's engine does, with less work per task.

A chain of tasks needs no threads, a graph has a scheduler of its own, and a task's parameters are known from
when its function was wrapped. Loops and branches are run by pyoco.
"""

import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

from pyoco.core.context import Context
from pyoco.core.models import Flow, RunStatus, Task, TaskRecord, TaskState

from pyoco_server.worker.engine.graph.graph_scheduler import GraphScheduler, mark_cancelled
from pyoco_server.worker.engine.pyoco_adapter import FlowContext, run_loops
from pyoco_server.worker.engine.tasks.task_calls import ServerRunContext, WrappedFunction


def run_flow(
    flow: Flow, params: dict[str, Any], run: ServerRunContext, discard_waits: Callable[[set[str]], None]
) -> None:
    """Run it to its end; `discard_waits` gets the tasks whose questions need no answer any more."""
    run.flow_name = flow.name
    run.params = params
    for name in run.tasks:
        # In the order of the flow: the engine would create the records in the order of a set.
        run.ensure_task_record(name)
    if flow.has_control_flow():
        run_loops(flow, params, run, _execute_in_loop)
        return
    context = FlowContext(params=params, run_context=run)
    run.calls.attach(context)
    chain = _chain(flow)
    if chain is not None:
        _run_chain(chain, context, run)
    else:
        execute = partial(execute_task, ctx=context)
        GraphScheduler(flow, run, execute=execute, discard_waits=discard_waits).run()


def _run_chain(chain: list[Task], context: Context, run: ServerRunContext) -> None:
    try:
        for index, task in enumerate(chain):
            if run.status is not RunStatus.RUNNING:
                mark_cancelled(run, chain[index:], ended_at=time.time())
                run.status = RunStatus.CANCELLED
                return
            execute_task(task, context)
    except Exception:
        run.status = RunStatus.FAILED
        raise
    if run.status is RunStatus.RUNNING:
        run.status = RunStatus.COMPLETED


def _execute_in_loop(task: Task, ctx: Context) -> None:
    # The engine creates the context, and executes one task at a time.
    ctx.run_context.calls.attach(ctx)
    execute_task(task, ctx)


def execute_task(task: Task, ctx: Context) -> None:
    """As the engine does, without inspecting the function's signature each time."""
    run: ServerRunContext = ctx.run_context
    name, function = task.name, task.func
    run.tasks[name] = TaskState.RUNNING
    record = run.ensure_task_record(name)
    record.state = TaskState.RUNNING
    record.started_at = time.time()
    record.error = record.traceback = None
    try:
        if not isinstance(function, WrappedFunction):
            # It has no signature: this raises what the engine would raise.
            function = WrappedFunction(task, function)
        record.inputs = inputs = _inputs(task, function, ctx)
        result = run.calls.execute(function, ctx, inputs)
        ctx.set_result(name, result)
        if task.outputs:
            _save_outputs(task, ctx, result)
    except BaseException as error:
        if isinstance(error, Exception):
            record.state = run.tasks[name] = TaskState.FAILED
            _set_end(record)
            record.error = str(error)
            record.traceback = traceback.format_exc()
        run.calls.raised(error, name)
        raise
    run.tasks[name] = record.state = TaskState.SUCCEEDED
    _set_end(record)
    record.output = result


def _inputs(task: Task, function: WrappedFunction, ctx: Context) -> dict[str, Any]:
    inputs = {key: ctx.resolve(value) for key, value in task.inputs.items()}
    # `ctx` is always the flow's context.
    inputs.pop("ctx", None)
    for parameter in function.parameters:
        if parameter not in inputs:
            if parameter in ctx.params:
                inputs[parameter] = ctx.params[parameter]
            elif parameter in ctx.results:
                inputs[parameter] = ctx.results[parameter]
    return inputs


def _save_outputs(task: Task, ctx: Context, result: Any) -> None:
    """Save the result under the paths of the task, such as `scratch.report.rows`."""
    roots = {"scratch": ctx.scratch, "results": ctx.results, "params": ctx.params}
    for path in task.outputs:
        root, *keys = path.split(".")
        current = roots.get(root)
        if current is None:
            continue
        for key in keys[:-1]:
            if key not in current:
                current[key] = {}
            current = current[key]
            if not isinstance(current, dict):
                break
        else:
            current[keys[-1] if keys else root] = result


def _set_end(record: TaskRecord) -> None:
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
