"""Calls about runs: methods of both clients, whose docstrings are those of these functions."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal, NotRequired, TypedDict, Unpack, cast

import httpx

from pyoco_server.http_client import client_endpoints as api
from pyoco_server.http_client.call_types import Pages, Request, Stream, call, given, object_in
from pyoco_server.http_client.event_stream import ServerSentEvent
from pyoco_server.http_client.filter_params import LogFilter, RunFilter, RunListing
from pyoco_server.http_client.response_types import (
    Accepted,
    Artifacts,
    Explanation,
    LogLine,
    LogPage,
    Run,
    RunItem,
    Tasks,
    View,
    ViewDeleted,
    ViewList,
)
from pyoco_server.http_client.response_types import RunPage as RunPageBody


class RunPage(RunPageBody):
    """A page of a list of runs."""

    # As of when the page is: the `after` of a watch.
    position: str | None


class RunEvent(TypedDict):
    """A change in a watched list of runs. After a `reset` the list has to be read again."""

    event: Literal["snapshot", "removed", "reset"]
    # The position of the event: the `after` of another watch.
    id: str | None
    ts: float
    run_id: NotRequired[str]
    snapshot: NotRequired[RunItem]


def submit_run(
    flow_name: str,
    params: Mapping[str, Any] | None = None,
    tag: str | None = None,
    tags: Sequence[str] | None = None,
    *,
    timeout_sec: float | None = None,
    start_at: datetime | float | str | None = None,
    delay_sec: float | None = None,
    strict: bool = False,
    idempotency_key: str | None = None,
) -> Request[Accepted]:
    """Submit a run of a flow that the workers know: its `run_id` and `status`.

    `timeout_sec` limits the run. With `start_at` (a datetime with its zone, a text in ISO 8601 with its
    offset, or unix seconds) or `delay_sec` it starts later, and is SCHEDULED until then.

    A flow that no live worker of the tag has, and params that do not match its schema, are `warnings` in the
    response; with `strict` they are refused.

    With an `idempotency_key` the same call may be made again after any failure, and there is one run all the
    same. The client itself does so when the gateway or NATS is away for a moment; without a key of yours it
    makes one for each call (not with `retries=0`).
    """
    body = given(
        flow_name=flow_name,
        params=params,
        tag=tag,
        tags=tags,
        timeout_sec=timeout_sec,
        start_at=_moment(start_at),
        delay_sec=delay_sec,
    )
    query = given(strict="true" if strict else None)
    return call(api.SUBMIT_RUN, query, body, key=idempotency_key, submits=True)


def submit_run_yaml(
    workflow_yaml: str | bytes,
    flow_name: str,
    tag: str | None = None,
    *,
    timeout_sec: float | None = None,
    start_at: datetime | float | str | None = None,
    delay_sec: float | None = None,
    idempotency_key: str | None = None,
) -> Request[Accepted]:
    """Submit the text of a flow.yaml as a run of the given name; the rest is as in `submit_run`."""
    content = workflow_yaml.encode() if isinstance(workflow_yaml, str) else workflow_yaml
    form = given(
        flow_name=flow_name,
        tag=tag,
        timeout_sec=timeout_sec,
        start_at=_moment(start_at),
        delay_sec=delay_sec,
    )
    files = {"workflow": ("flow.yaml", content)}
    return call(api.SUBMIT_RUN_YAML, form=form, files=files, key=idempotency_key, submits=True)


def rerun(
    run_id: str,
    mode: str = "start",
    task: str | None = None,
    *,
    params: Mapping[str, Any] | None = None,
    keep_answers: bool = False,
    start_at: datetime | float | str | None = None,
    delay_sec: float | None = None,
    strict: bool = False,
    idempotency_key: str | None = None,
) -> Request[Accepted]:
    """Rerun a run that has ended, as a new run: its `run_id`, `status` and `origin_run_id`.

    The mode `failed` continues from what failed, `task` from the named task: what finished before is not
    executed again. `params` replace all params of the origin, in the mode `start`; `params_changed` in the
    response says whether they differ. With `keep_answers` the answers of people count for the same questions
    of the new run. `start_at`, `delay_sec`, `strict` and `idempotency_key` are as in `submit_run`.
    """
    body = given(
        mode=mode,
        task=task,
        params=params,
        keep_answers=True if keep_answers else None,
        start_at=_moment(start_at),
        delay_sec=delay_sec,
    )
    query = given(strict="true" if strict else None)
    return call(api.RERUN, query=query, body=body, key=idempotency_key, run_id=run_id)


def cancel_run(run_id: str, reason: str | None = None) -> Request[Run]:
    """Request that a run stops: its snapshot, CANCELLING unless it has ended already."""
    return call(api.CANCEL_RUN, body=given(reason=reason), run_id=run_id)


def get_run(run_id: str, include: Sequence[str] = ()) -> Request[Run]:
    """The newest snapshot of a run; `include=["records"]` adds its task records."""
    return call(api.GET_RUN, _including(include), run_id=run_id)


def get_tasks(run_id: str) -> Request[Tasks]:
    """The states and the records of a run's tasks."""
    return call(api.GET_TASKS, run_id=run_id)


def get_value(run_id: str, task: str | None = None) -> Request[tuple[Any]]:
    """What a run or one of its tasks returned. A tuple, since the value may be None."""
    if task is None:
        return call(api.GET_RESULT, read=_value_in, run_id=run_id)
    return call(api.GET_TASK_OUTPUT, read=_value_in, run_id=run_id, task=task)


def value_path(run_id: str, task: str | None) -> str:
    """Where the value of `get_value` is."""
    return get_value(run_id, task).path


def explain(run_id: str) -> Request[Explanation]:
    """Why a run is in its state, what happens next, and what can be done about it."""
    return call(api.EXPLAIN_RUN, run_id=run_id)


def list_runs(limit: int | None = None, **selected: Unpack[RunListing]) -> Request[list[RunItem]]:
    """The runs that match, the last changed first; at most `limit` (50, and never more than 200)."""
    query = given(limit=limit, paged="true", **selected)
    return call(api.LIST_RUNS, query, read=_items_in)


def list_runs_vnext(
    limit: int | None = None,
    cursor: str | None = None,
    *,
    total: bool = False,
    **selected: Unpack[RunListing],
) -> Request[RunPage]:
    """A page of the runs that match: its `items`, and the `next_cursor` that leads to the next page.

    Give a cursor together with the same filters. `total` also counts all that match. The `position` of a
    page is the `after` of a `watch_runs` that continues from there.
    """
    query = given(limit=limit, cursor=cursor, paged="true", total="true" if total else None, **selected)
    return call(api.LIST_RUNS, query, read=_page_in)


def list_views() -> Request[ViewList]:
    """The saved views of the list of runs, which all keys of the tenant share."""
    return call(api.LIST_VIEWS)


def get_view(name: str) -> Request[View]:
    """One saved view."""
    return call(api.GET_VIEW, view_name=name)


def save_view(
    name: str,
    *,
    filter: Mapping[str, Any] | None = None,
    sort: str | None = None,
    order: str | None = None,
    columns: Sequence[str] | None = None,
    new_name: str | None = None,
    revision: int | None = None,
) -> Request[View]:
    """Create a view, or replace it: a `filter` as in `{"status": ["FAILED"], "since": "24h"}`, and an order.

    `new_name` renames it. With the `revision` that was read, a change by somebody else in between is a 409
    and nothing is changed; 0 creates it only.
    """
    body = given(filter=filter, sort=sort, order=order, columns=columns, name=new_name, revision=revision)
    # Once more would be a conflict with itself.
    repeatable = revision is None and new_name is None
    return call(api.PUT_VIEW, body=body, repeatable=repeatable, view_name=name)


def delete_view(name: str, *, revision: int | None = None) -> Request[ViewDeleted]:
    """Delete a view."""
    return call(api.DELETE_VIEW, given(revision=revision), view_name=name)


def iter_runs(page_size: int = 200, **selected: Unpack[RunListing]) -> Pages[RunItem]:
    """Every run that matches, page after page; the last submitted first, unless `sort` says otherwise."""
    # In this order a run that changes meanwhile keeps its place.
    in_order = RunListing(**{**selected, "sort": selected.get("sort") or "submitted_at"})
    return Pages(page=lambda cursor: list_runs_vnext(page_size, cursor, **in_order))


def watch_run(run_id: str, include: Sequence[str] = ()) -> Stream[Run]:
    """Each new snapshot of a run, the newest one first, to the run's end or removal.

    The client reconnects when the gateway is away for a moment. A slow reader gets the newest snapshot only.
    """
    return Stream(
        path=api.WATCH_RUN.url(run_id=run_id),
        query=_including(include),
        read=_snapshot_in,
        ends=_is_end_of_run,
    )


def watch_runs(*, after: str | None = None, **selected: Unpack[RunFilter]) -> Stream[RunEvent]:
    """What happens to the runs that match: from now on, or since a page's `position` or an event's `id`.

    The client reconnects when the gateway is away for a moment. When the gateway no longer has what changed
    meanwhile, there is an event `reset`, and the watch ends: list the runs again, and watch again.
    """
    return Stream(
        path=api.WATCH_RUNS.url(),
        query=given(**selected),
        last_id=after,
        read=_run_event_in,
        ends=lambda event, _: event.name == "reset",
    )


def list_artifacts(run_id: str) -> Request[Artifacts]:
    """The files of a run, by name, and those that were left out, with the reason."""
    return call(api.LIST_ARTIFACTS, run_id=run_id)


def get_logs(
    run_id: str,
    *,
    after: str | None = None,
    before: str | None = None,
    around: str | None = None,
    limit: int | None = None,
    **selected: Unpack[LogFilter],
) -> Request[LogPage]:
    """A page of what a run printed: its first lines, or those after, before or around the line with an id.

    `next_after` is the `after` of the next page, `previous_before` the `before` of the previous one.
    """
    place = given(after=after, before=before, around=around, limit=limit, **selected)
    return call(api.GET_LOGS, place, run_id=run_id)


def iter_logs(run_id: str, *, after: str | None = None, **selected: Unpack[LogFilter]) -> Pages[LogLine]:
    """Each line that a run has printed by now, page after page."""
    return Pages(
        # With a limit: without one, a page has its lines twice, for pyoco's own client.
        page=lambda place: get_logs(run_id, after=place, limit=1000, **selected),
        start=after,
        items="lines",
        # A page without lines is not the end: a search may need many pages. One without progress is.
        next=lambda page, place: (
            None if page["complete"] or page["next_after"] == place else page["next_after"]
        ),
    )


def follow_logs(run_id: str, *, after: str | None = None, **selected: Unpack[LogFilter]) -> Stream[LogLine]:
    """Each line as the run prints it, to the run's end.

    The client reconnects when the gateway is away for a moment; no line is lost or repeated.
    """
    return Stream(
        path=api.GET_LOGS.url(run_id=run_id),
        query=given(**selected),
        last_id=after,
        read=lambda event: cast(LogLine, json.loads(event.data)) if event.name == "line" else None,
        ends=lambda event, _: event.name == "end",
    )


class RunFollowing:
    """The newest snapshot of a run that is followed to its end, by a stream or by polling."""

    def __init__(self, run_id: str, timeout_sec: float | None, include: Sequence[str]) -> None:
        self._run_id = run_id
        self._include = include
        self._timeout_sec = timeout_sec
        self._newest: Run | None = None
        self.deadline = None if timeout_sec is None else time.monotonic() + timeout_sec

    def stream(self) -> Stream[Run]:
        return replace(watch_run(self._run_id, self._include), replaceable=True, deadline=self.deadline)

    def poll(self) -> Request[Run]:
        """For a gateway, or a proxy before it, that has no streams."""
        return get_run(self._run_id, self._include)

    @property
    def ended(self) -> bool:
        return self._newest is not None and self._newest["status"] in api.TERMINAL

    def is_change(self, run: Run) -> bool:
        """Whether more has changed than the heartbeat."""
        earlier, self._newest = self._newest, run
        return earlier is None or _state(run) != _state(earlier)

    def timeout_error(self) -> TimeoutError:
        status = "unknown" if self._newest is None else self._newest["status"]
        return TimeoutError(f"run {self._run_id} is still {status} after {self._timeout_sec:g} s; it goes on")


def _moment(start_at: datetime | float | str | None) -> float | str | None:
    """As it is sent; the gateway refuses one without a zone."""
    return start_at.isoformat() if isinstance(start_at, datetime) else start_at


def _state(run: Run) -> tuple[object, ...]:
    return tuple(run.get(name) for name in ("status", "tasks", "attempt", "worker_id", "open_waits"))


def _including(include: Sequence[str]) -> dict[str, Any]:
    return {"include": list(include)} if include else {}


def _items_in(response: httpx.Response) -> Any:
    page = object_in(response)
    return None if page is None else page.get("items")


def _page_in(response: httpx.Response) -> Any:
    page = object_in(response)
    return None if page is None else {**page, "position": response.headers.get(api.REVISION_HEADER)}


def _value_in(response: httpx.Response) -> tuple[Any] | None:
    """JSON, or bytes as they are."""
    media_type = response.headers.get("content-type", "").partition(";")[0]
    if media_type == "application/octet-stream":
        return (response.content,)
    if media_type != "application/json":
        return None
    try:
        return (response.json(),)
    except ValueError:
        return None


def _snapshot_in(event: ServerSentEvent) -> Run | None:
    return cast(Run, json.loads(event.data)["snapshot"]) if event.name == "snapshot" else None


def _is_end_of_run(event: ServerSentEvent, run: Run | None) -> bool:
    return event.name == "removed" or (run is not None and run["status"] in api.TERMINAL)


def _run_event_in(event: ServerSentEvent) -> RunEvent | None:
    if event.name not in ("snapshot", "removed", "reset"):
        return None
    return cast(RunEvent, {"event": event.name, "id": event.id, **json.loads(event.data)})
