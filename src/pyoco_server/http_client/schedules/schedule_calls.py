"""Calls about schedules: methods of both clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from pyoco_server.http_client import client_endpoints as api
from pyoco_server.http_client.call_types import Pages, Request, call, given
from pyoco_server.http_client.filter_params import ScheduleFilter
from pyoco_server.http_client.response_types import (
    BackfillCancelled,
    Backfilled,
    BackfillList,
    NextTimes,
    Schedule,
    ScheduleDeleted,
    ScheduleItem,
    SchedulePage,
    Triggered,
)

Moment = str | float


def create_schedule(
    schedule_id: str,
    flow_name: str,
    spec: Mapping[str, Any],
    *,
    idempotency_key: str | None = None,
    **fields: Any,
) -> Request[Schedule]:
    """Create a schedule: `spec` says when the flow runs, as in `{"cron": "0 2 * * *"}`.

    The fields are those of `POST /schedules`: `params`, `tag`, `tags`, `timeout_sec`, `workflow_yaml`,
    `overlap`, `catchup_window_sec`, `pause_on_failure`, `remaining_runs`, `paused` and `note`.

    With an `idempotency_key` the same call may be made again after any failure, here and below; without one
    each call has a key of its own, for its retries.
    """
    body = {"schedule_id": schedule_id, "flow_name": flow_name, "spec": spec, **fields}
    return call(api.CREATE_SCHEDULE, body=body, key=idempotency_key, submits=True)


def get_schedule(schedule_id: str, *, tenant: str | None = None) -> Request[Schedule]:
    """One schedule, with its next times and its last decisions.

    A `tenant` is for operators, here and in the other calls: whose schedule it is.
    """
    return call(api.GET_SCHEDULE, given(tenant=tenant), schedule_id=schedule_id)


def list_schedules(
    limit: int | None = None, cursor: str | None = None, **selected: Unpack[ScheduleFilter]
) -> Request[SchedulePage]:
    """A page of the schedules that match, in the order of their ids."""
    query = given(limit=limit, cursor=cursor, **selected)
    if "paused" in query:
        query["paused"] = "true" if query["paused"] else "false"
    return call(api.LIST_SCHEDULES, query)


def iter_schedules(page_size: int = 200, **selected: Unpack[ScheduleFilter]) -> Pages[ScheduleItem]:
    """Every schedule that matches, page after page."""
    return Pages(page=lambda cursor: list_schedules(page_size, cursor, **selected))


def update_schedule(
    schedule_id: str, *, revision: int | None = None, tenant: str | None = None, **fields: Any
) -> Request[Schedule]:
    """Change the given fields; those of `spec` that are not given stay as they are.

    With the `revision` that was read, a change by somebody else in between is a 409 and nothing is changed.
    """
    body = {**given(revision=revision), **fields}
    return call(api.PATCH_SCHEDULE, given(tenant=tenant), body, schedule_id=schedule_id)


def delete_schedule(
    schedule_id: str, *, revision: int | None = None, tenant: str | None = None
) -> Request[ScheduleDeleted]:
    """Delete a schedule; its runs stay."""
    return call(api.DELETE_SCHEDULE, given(revision=revision, tenant=tenant), schedule_id=schedule_id)


def pause_schedule(
    schedule_id: str, note: str | None = None, *, tenant: str | None = None
) -> Request[Schedule]:
    """Start nothing until it is resumed. A repeated call changes nothing."""
    return call(api.PAUSE_SCHEDULE, given(tenant=tenant), given(note=note), schedule_id=schedule_id)


def resume_schedule(
    schedule_id: str, note: str | None = None, *, tenant: str | None = None
) -> Request[Schedule]:
    """Start runs again from now on; what was due meanwhile is not started."""
    return call(api.RESUME_SCHEDULE, given(tenant=tenant), given(note=note), schedule_id=schedule_id)


def trigger_schedule(
    schedule_id: str,
    params: Mapping[str, Any] | None = None,
    *,
    overlap: str | None = None,
    tenant: str | None = None,
    idempotency_key: str | None = None,
) -> Request[Triggered]:
    """Start a run now, beside the occurrences; `params` replace those of the schedule by name."""
    body = given(params=params, overlap=overlap)
    return call(
        api.TRIGGER_SCHEDULE,
        given(tenant=tenant),
        body,
        key=idempotency_key,
        submits=True,
        schedule_id=schedule_id,
    )


def backfill_schedule(
    schedule_id: str,
    start: Moment,
    end: Moment,
    *,
    overlap: str | None = None,
    dry_run: bool = False,
    tenant: str | None = None,
    idempotency_key: str | None = None,
) -> Request[Backfilled]:
    """Start the runs of a past period, one after the other unless `overlap` says otherwise.

    A `dry_run` only counts them.
    """
    body = {"from": start, "to": end, **given(overlap=overlap, dry_run=dry_run or None)}
    return call(
        api.BACKFILL_SCHEDULE,
        given(tenant=tenant),
        body,
        key=idempotency_key,
        repeatable=dry_run,
        submits=not dry_run,
        schedule_id=schedule_id,
    )


def list_backfills(schedule_id: str, *, tenant: str | None = None) -> Request[BackfillList]:
    """The backfills of a schedule that are in progress."""
    return call(api.LIST_BACKFILLS, given(tenant=tenant), schedule_id=schedule_id)


def cancel_backfill(
    schedule_id: str, backfill_id: str, *, tenant: str | None = None
) -> Request[BackfillCancelled]:
    """Start no more runs of a backfill; those that it has started stay."""
    return call(api.CANCEL_BACKFILL, given(tenant=tenant), schedule_id=schedule_id, backfill_id=backfill_id)


def next_times(
    schedule_id: str, n: int | None = None, *, after: float | None = None, tenant: str | None = None
) -> Request[NextTimes]:
    """The next `n` times of a schedule, also while it is paused."""
    return call(api.NEXT_TIMES, given(n=n, after=after, tenant=tenant), schedule_id=schedule_id)


def preview_schedule(
    spec: Mapping[str, Any], n: int | None = None, *, after: Moment | None = None
) -> Request[NextTimes]:
    """The next `n` times of a spec; nothing is stored."""
    return call(api.PREVIEW_SCHEDULE, body={"spec": spec, **given(n=n, after=after)})
