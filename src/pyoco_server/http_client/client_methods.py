"""The methods of both clients: a table of calls, each typed for the client that has it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from pyoco_server.http_client import system_calls as system
from pyoco_server.http_client.agent import request_calls as requests
from pyoco_server.http_client.call_types import Pages, Request, Stream
from pyoco_server.http_client.monitoring import alert_calls as alerts
from pyoco_server.http_client.monitoring import audit_calls as audit
from pyoco_server.http_client.monitoring import statistics_calls
from pyoco_server.http_client.runs import bulk_calls as bulk
from pyoco_server.http_client.runs import dlq_calls as letters
from pyoco_server.http_client.runs import run_calls as runs
from pyoco_server.http_client.schedules import schedule_calls as schedules
from pyoco_server.http_client.triggers import hook_calls as hooks
from pyoco_server.http_client.triggers import workflow_event_calls as events
from pyoco_server.http_client.waits import signal_calls as signals
from pyoco_server.http_client.waits import wait_calls as waits_
from pyoco_server.http_client.workers import flow_calls as flows
from pyoco_server.http_client.workers import wheel_calls as wheels
from pyoco_server.http_client.workers import worker_calls as workers

if TYPE_CHECKING:
    from pyoco_server.http_client.async_client import AsyncPyocoHttpClient
    from pyoco_server.http_client.sync_client import PyocoHttpClient

P = ParamSpec("P")
T = TypeVar("T")


class Sent(Generic[P, T]):
    """A method that sends the request of a call; that of the asynchronous client is awaited."""

    def __init__(self, call: Callable[P, Request[T]]) -> None:
        self.call = call

    @overload
    def __get__(self, client: PyocoHttpClient, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncPyocoHttpClient, owner: type) -> Callable[P, Awaitable[T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        """Only for type checkers: each client has a function in its place."""

    def function(self, *, is_async: bool) -> Callable[..., Any]:
        call: Callable[..., Request[T]] = self.call

        def send(client: PyocoHttpClient, /, *args: Any, **kwargs: Any) -> T:
            return client._send(call(*args, **kwargs))

        async def send_async(client: AsyncPyocoHttpClient, /, *args: Any, **kwargs: Any) -> T:
            return await client._send(call(*args, **kwargs))

        return _documented(send_async if is_async else send, call, "{}")


class Iterated(Generic[P, T]):
    """A method that iterates over the items of all pages, or of a stream."""

    def __init__(self, call: Callable[P, Pages[T] | Stream[T]]) -> None:
        self.call = call

    @overload
    def __get__(self, client: PyocoHttpClient, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: AsyncPyocoHttpClient, owner: type) -> Callable[P, AsyncGenerator[T, None]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        """As that of `Sent`."""

    def function(self, *, is_async: bool) -> Callable[..., Any]:
        call: Callable[..., Pages[T] | Stream[T]] = self.call

        def iterate(client: Any, /, *args: Any, **kwargs: Any) -> Any:
            source = call(*args, **kwargs)
            return client._all(source) if isinstance(source, Pages) else client._follow(source)

        return _documented(iterate, call, "AsyncGenerator[{}, None]" if is_async else "Iterator[{}]")


def _documented(method: Callable[..., Any], call: Callable[..., Any], returns: str) -> Callable[..., Any]:
    """The method with the name, docstring and parameters of its call, for `help`."""
    described = signature(call)
    itself = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
    # A `Request[Run]` returns a Run.
    result = str(described.return_annotation).partition("[")[2].removesuffix("]")
    method.__name__ = method.__qualname__ = call.__name__
    method.__doc__ = call.__doc__
    method.__signature__ = described.replace(  # type: ignore[attr-defined]
        parameters=[itself, *described.parameters.values()], return_annotation=returns.format(result)
    )
    return method


class ClientMethods:
    """The parameters of a method are those of the function of its name in the modules of calls."""

    def __init_subclass__(cls, *, is_async: bool | None = None) -> None:
        super().__init_subclass__()
        if is_async is None:  # a subclass of one of the clients
            return
        for name, method in vars(ClientMethods).items():
            if isinstance(method, Sent | Iterated):
                setattr(cls, name, method.function(is_async=is_async))

    submit_run = Sent(runs.submit_run)
    submit_run_yaml = Sent(runs.submit_run_yaml)
    rerun = Sent(runs.rerun)
    cancel_run = Sent(runs.cancel_run)
    get_run = Sent(runs.get_run)
    get_tasks = Sent(runs.get_tasks)
    explain = Sent(runs.explain)
    list_runs = Sent(runs.list_runs)
    list_runs_vnext = Sent(runs.list_runs_vnext)
    iter_runs = Iterated(runs.iter_runs)
    list_views = Sent(runs.list_views)
    get_view = Sent(runs.get_view)
    save_view = Sent(runs.save_view)
    delete_view = Sent(runs.delete_view)
    watch_run = Iterated(runs.watch_run)
    watch_runs = Iterated(runs.watch_runs)
    list_artifacts = Sent(runs.list_artifacts)
    get_logs = Sent(runs.get_logs)
    iter_logs = Iterated(runs.iter_logs)
    list_flows = Sent(flows.list_flows)
    iter_flows = Iterated(flows.iter_flows)
    get_flow = Sent(flows.get_flow)
    get_run_graph = Sent(flows.get_run_graph)
    statistics = Sent(statistics_calls.statistics)
    list_workers = Sent(workers.list_workers)
    get_worker = Sent(workers.get_worker)
    get_worker_setup = Sent(workers.get_worker_setup)
    update_worker = Sent(workers.update_worker)
    metrics = Sent(system.metrics)
    health = Sent(system.health)
    key = Sent(system.key)
    list_dlq = Sent(letters.list_dlq)
    iter_dlq = Iterated(letters.iter_dlq)
    get_dlq = Sent(letters.get_dlq)
    replay_dlq = Sent(letters.replay_dlq)
    delete_dlq = Sent(letters.delete_dlq)
    bulk_cancel = Sent(bulk.bulk_cancel)
    bulk_rerun = Sent(bulk.bulk_rerun)
    bulk_replay_dlq = Sent(bulk.bulk_replay_dlq)
    bulk_delete_dlq = Sent(bulk.bulk_delete_dlq)
    list_bulk = Sent(bulk.list_bulk)
    get_bulk = Sent(bulk.get_bulk)
    stop_bulk = Sent(bulk.stop_bulk)
    list_audit = Sent(audit.list_audit)
    iter_audit = Iterated(audit.iter_audit)
    list_wheels = Sent(wheels.list_wheels)
    wheel_history = Sent(wheels.wheel_history)
    upload_wheel = Sent(wheels.upload_wheel)
    delete_wheel = Sent(wheels.delete_wheel)
    waits = Sent(waits_.waits)
    iter_waits = Iterated(waits_.iter_waits)
    get_wait = Sent(waits_.get_wait)
    watch_waits = Iterated(waits_.watch_waits)
    respond = Sent(waits_.respond)
    resume = Sent(waits_.resume)
    withdraw_wait = Sent(waits_.withdraw_wait)
    extend_wait = Sent(waits_.extend_wait)
    reassign_wait = Sent(waits_.reassign_wait)
    retry = Sent(waits_.retry)
    create_schedule = Sent(schedules.create_schedule)
    get_schedule = Sent(schedules.get_schedule)
    list_schedules = Sent(schedules.list_schedules)
    iter_schedules = Iterated(schedules.iter_schedules)
    update_schedule = Sent(schedules.update_schedule)
    delete_schedule = Sent(schedules.delete_schedule)
    pause_schedule = Sent(schedules.pause_schedule)
    resume_schedule = Sent(schedules.resume_schedule)
    trigger_schedule = Sent(schedules.trigger_schedule)
    backfill_schedule = Sent(schedules.backfill_schedule)
    list_backfills = Sent(schedules.list_backfills)
    cancel_backfill = Sent(schedules.cancel_backfill)
    next_times = Sent(schedules.next_times)
    preview_schedule = Sent(schedules.preview_schedule)
    send_signal = Sent(signals.send_signal)
    list_signals = Sent(signals.list_signals)
    send_event = Sent(signals.send_event)
    send_workflow_event = Sent(events.send_workflow_event)
    event_summary = Sent(events.event_summary)
    list_retry_jobs = Sent(events.list_retry_jobs)
    drain_retry_jobs = Sent(events.drain_retry_jobs)
    notification_settings = Sent(events.notification_settings)
    save_notification_settings = Sent(events.save_notification_settings)
    send_test_notification = Sent(events.send_test_notification)
    list_templates = Sent(events.list_templates)
    iter_templates = Iterated(events.iter_templates)
    get_template = Sent(events.get_template)
    save_template = Sent(events.save_template)
    delete_template = Sent(events.delete_template)
    preview_template = Sent(events.preview_template)
    list_actions = Sent(events.list_actions)
    get_action = Sent(events.get_action)
    save_action = Sent(events.save_action)
    delete_action = Sent(events.delete_action)
    create_hook = Sent(hooks.create_hook)
    get_hook = Sent(hooks.get_hook)
    list_hooks = Sent(hooks.list_hooks)
    iter_hooks = Iterated(hooks.iter_hooks)
    update_hook = Sent(hooks.update_hook)
    delete_hook = Sent(hooks.delete_hook)
    rotate_hook = Sent(hooks.rotate_hook)
    finish_hook_rotation = Sent(hooks.finish_hook_rotation)
    preview_hook = Sent(hooks.preview_hook)
    list_deliveries = Sent(hooks.list_deliveries)
    iter_deliveries = Iterated(hooks.iter_deliveries)
    get_delivery = Sent(hooks.get_delivery)
    redeliver = Sent(hooks.redeliver)
    list_alerts = Sent(alerts.list_alerts)
    iter_alerts = Iterated(alerts.iter_alerts)
    get_alert = Sent(alerts.get_alert)
    save_alert = Sent(alerts.save_alert)
    check_alert = Sent(alerts.check_alert)
    delete_alert = Sent(alerts.delete_alert)
    send_test_alert = Sent(alerts.send_test_alert)
    mute_alert = Sent(alerts.mute_alert)
    unmute_alert = Sent(alerts.unmute_alert)
    alert_history = Sent(alerts.alert_history)
    list_requests = Sent(requests.list_requests)
    create_request = Sent(requests.create_request)
    get_request = Sent(requests.get_request)
    update_request = Sent(requests.update_request)
    delete_request = Sent(requests.delete_request)
    enqueue_request = Sent(requests.enqueue_request)
    stop_request = Sent(requests.stop_request)
    resume_request = Sent(requests.resume_request)
    rerun_request = Sent(requests.rerun_request)
    list_request_runs = Sent(requests.list_request_runs)
    latest_request_run = Sent(requests.latest_request_run)
    request_artifact = Sent(requests.request_artifact)
    raw_request = Sent(requests.raw_request)
    doctor = Sent(requests.doctor)
