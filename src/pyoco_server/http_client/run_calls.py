"""Every question about runs, described once: these are the methods of both clients.

The text of a function here is the text of the method.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Unpack, cast

import httpx

from pyoco_server.http_client.call_types import (
    Pages,
    Request,
    Stream,
    get,
    given,
    key_header,
    object_in,
    post,
    quoted,
)
from pyoco_server.http_client.event_stream import ServerSentEvent
from pyoco_server.http_client.filter_params import LogFilter, RunFilter, RunListing
from pyoco_server.http_client.response_types import (
    Accepted,
    Explanation,
    LogLine,
    LogPage,
    Run,
    RunEvent,
    RunItem,
    RunPage,
    Tasks,
)
from pyoco_server.records.models import TERMINAL


def submit_run(
    flow_name: str,
    params: Mapping[str, Any] | None = None,
    tag: str | None = None,
    tags: Sequence[str] | None = None,
    *,
    timeout_sec: float | None = None,
    idempotency_key: str | None = None,
) -> Request[Accepted]:
    """Submit a run of a flow that the workers know: its `run_id` and `status`.

    `timeout_sec` limits the run. With an `idempotency_key` the same call may be made again after any
    failure, and there is one run all the same; the client itself does so when the gateway is away.
    """
    body = given(flow_name=flow_name, params=params, tag=tag, tags=tags, timeout_sec=timeout_sec)
    return Request(
        method="POST",
        path="/runs",
        json=body,
        headers=key_header(idempotency_key),
        repeatable=idempotency_key is not None,
    )


def submit_run_yaml(
    workflow_yaml: str | bytes,
    flow_name: str,
    tag: str | None = None,
    *,
    timeout_sec: float | None = None,
    idempotency_key: str | None = None,
) -> Request[Accepted]:
    """Submit the text of a flow.yaml as a run of the given name; the rest is as in `submit_run`."""
    content = workflow_yaml.encode() if isinstance(workflow_yaml, str) else workflow_yaml
    return Request(
        method="POST",
        path="/runs/yaml",
        form=given(flow_name=flow_name, tag=tag, timeout_sec=timeout_sec),
        files={"workflow": ("flow.yaml", content)},
        headers=key_header(idempotency_key),
        repeatable=idempotency_key is not None,
    )


def rerun(
    run_id: str, mode: str = "start", task: str | None = None, *, idempotency_key: str | None = None
) -> Request[Accepted]:
    """Repeat a run that has ended, as a new run: its `run_id`, `status` and `origin_run_id`.

    The mode `failed` goes on from what failed, `task` from the named task: what finished before is not
    executed again. An `idempotency_key` is as in `submit_run`.
    """
    return post(_run(run_id, "/rerun"), given(mode=mode, task=task), key=idempotency_key)


def cancel_run(run_id: str, reason: str | None = None) -> Request[Run]:
    """Ask a run to stop: its snapshot, CANCELLING unless it has ended already."""
    return post(_run(run_id, "/cancel"), given(reason=reason), repeatable=True)


def get_run(run_id: str, include: Sequence[str] = ()) -> Request[Run]:
    """The newest snapshot of a run; `include=["records"]` adds its task records."""
    return get(_run(run_id), {"include": list(include)} if include else {})


def get_tasks(run_id: str) -> Request[Tasks]:
    """The states and the records of a run's tasks."""
    return get(_run(run_id, "/tasks"))


def explain(run_id: str) -> Request[Explanation]:
    """Why a run is where it is, what happens next, and what can be done about it."""
    return get(_run(run_id, "/explain"))


def list_runs(limit: int | None = None, **wanted: Unpack[RunListing]) -> Request[list[RunItem]]:
    """The runs that match, the last changed first; at most `limit` (50, and never more than 200)."""
    query = given(limit=limit, paged="true", **wanted)
    return Request(method="GET", path="/runs", query=query, read=_items_in, repeatable=True)


def list_runs_vnext(
    limit: int | None = None,
    cursor: str | None = None,
    *,
    total: bool = False,
    **wanted: Unpack[RunListing],
) -> Request[RunPage]:
    """A page of the runs that match: its `items`, and the `next_cursor` that leads to the next page.

    Give a cursor together with the same filters. `total` also counts all that match. The `position` of a
    page is the `after` of a `watch_runs` that tells what happens from there on.
    """
    asked = given(limit=limit, cursor=cursor, paged="true", total="true" if total else None, **wanted)
    return Request(
        method="GET",
        path="/runs",
        query=asked,
        read=_page_in,
        repeatable=True,
    )


def iter_runs(page_size: int = 200, **wanted: Unpack[RunListing]) -> Pages[RunItem]:
    """Every run that matches, page after page; the last submitted first, unless `sort` says otherwise."""
    # A run that is written meanwhile keeps its place in this order, and is on one of the pages.
    in_order = RunListing(**{**wanted, "sort": wanted.get("sort") or "submitted_at"})
    return Pages(
        page=lambda cursor: list_runs_vnext(page_size, cursor, **in_order),
        items="items",
        next=lambda page, _: page.get("next_cursor"),
    )


def watch_run(run_id: str, include: Sequence[str] = ()) -> Stream[Run]:
    """Each new snapshot of a run, the newest one first, to the run's end or removal.

    A gateway that goes away for a moment is waited for. A slow reader gets the newest snapshot only.
    """
    return Stream(
        path=_run(run_id, "/watch"),
        query={"include": list(include)} if include else {},
        read=_snapshot_in,
        ends=_is_end_of_run,
    )


def watch_runs(*, after: str | None = None, **wanted: Unpack[RunFilter]) -> Stream[RunEvent]:
    """What happens to the runs that match: from now on, or since a page's `position` or an event's `id`.

    A gateway that goes away for a moment is waited for. When it cannot tell what happened meanwhile, there
    is an event `reset`, and the watch ends: list the runs again, and watch again.
    """
    return Stream(
        path="/runs/watch",
        query=given(**wanted),
        last_id=after,
        read=_run_event_in,
        ends=lambda event, _: event.name == "reset",
    )


def get_logs(
    run_id: str, *, after: str | None = None, limit: int | None = None, **wanted: Unpack[LogFilter]
) -> Request[LogPage]:
    """A page of what a run printed; its `next_after` is the `after` of the next page."""
    return get(_run(run_id, "/logs"), given(after=after, limit=limit, **wanted))


def iter_logs(run_id: str, *, after: str | None = None, **wanted: Unpack[LogFilter]) -> Pages[LogLine]:
    """Each line that a run has printed by now, page after page."""
    return Pages(
        page=lambda place: get_logs(run_id, after=place, **wanted),
        begin=after,
        items="lines",
        # A page without lines is no end, since a search may need many of them; one that leads nowhere is.
        next=lambda page, place: (
            None if page["complete"] or page["next_after"] == place else page["next_after"]
        ),
    )


def follow_logs(run_id: str, *, after: str | None = None, **wanted: Unpack[LogFilter]) -> Stream[LogLine]:
    """Each line as the run prints it, to the run's end.

    A gateway that goes away for a moment is waited for, and no line is lost or told twice.
    """
    return Stream(
        path=_run(run_id, "/logs"),
        query=given(**wanted),
        last_id=after,
        read=lambda event: cast(LogLine, json.loads(event.data)) if event.name == "line" else None,
        ends=lambda event, _: event.name == "end",
    )


def _run(run_id: str, rest: str = "") -> str:
    return f"/runs/{quoted(run_id)}{rest}"


def _items_in(response: httpx.Response) -> Any:
    page = object_in(response)
    return None if page is None else page.get("items")


def _page_in(response: httpx.Response) -> Any:
    page = object_in(response)
    return None if page is None else {**page, "position": response.headers.get("X-Pyoco-Revision")}


def _snapshot_in(event: ServerSentEvent) -> Run | None:
    return cast(Run, json.loads(event.data)["snapshot"]) if event.name == "snapshot" else None


def _is_end_of_run(event: ServerSentEvent, run: Run | None) -> bool:
    return event.name == "removed" or (run is not None and run["status"] in TERMINAL)


def _run_event_in(event: ServerSentEvent) -> RunEvent | None:
    if event.name not in ("snapshot", "removed", "reset"):
        return None
    return cast(RunEvent, {"event": event.name, "id": event.id, **json.loads(event.data)})
