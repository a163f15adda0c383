"""Schedules: create, list, change, pause, trigger, backfill and delete them, and look at their times."""

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, TypeVar

from msgspec import UNSET, Struct, structs
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.api import schedule_types as types
from pyoco_server.api.endpoints.schedules import schedule_endpoints as endpoints
from pyoco_server.broker.stores.schedules.schedule_store import StoredSchedule
from pyoco_server.errors import FieldProblem, InvalidRequest, shortened_json
from pyoco_server.http_api.gateway import Gateway, gateway_of
from pyoco_server.http_api.middleware.principal import caller_of
from pyoco_server.http_api.requests.bodies import json_record, limited_body, optional_record
from pyoco_server.http_api.requests.idempotency_header import REPLAYED, keyed_by_header
from pyoco_server.http_api.requests.query import (
    QueryReader,
    cursor_value,
    query_record,
    text_value,
    whole_number,
    yes_or_no,
)
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.routes.runs.submit_routes import checked_flow
from pyoco_server.http_api.routing import handles
from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.records.schedules.schedule_models import (
    Moment,
    ScheduleRecord,
    ScheduleSpec,
    VisibleSchedule,
)
from pyoco_server.runs.lifecycle.input_limits import check_params, check_workflow_size
from pyoco_server.schedules.calendar_times import (
    OccurrenceSearch,
    iso_in_zone,
    just_before,
    next_times,
    search_times,
)
from pyoco_server.schedules.schedule_directory import ScheduleRow
from pyoco_server.schedules.schedule_lists import ScheduleSelection
from pyoco_server.schedules.schedule_service import BackfillProgress, ScheduleName, ScheduleService
from pyoco_server.schedules.spec_problems import checked_spec, moment_of, not_found_until

T = TypeVar("T", bound=Struct)


@handles(endpoints.CREATE_SCHEDULE)
async def create_schedule(request: Request) -> Response:
    body = await _read(request, types.ScheduleRequest)
    caller = caller_of(request)
    keyed = keyed_by_header(request, caller, "create schedule", body)
    fields = await _checked_fields(request, body)
    schedule_id, spec = fields.pop("schedule_id"), fields.pop("spec")
    created = await _service(request).create(schedule_id, caller, spec, request=keyed, **fields)
    return await _view(request, created.stored, HTTPStatus.CREATED, replayed=created.replayed)


@handles(endpoints.LIST_SCHEDULES)
async def list_schedules(request: Request) -> Response:
    gateway = gateway_of(request)
    cursors = await gateway.cursors.get() if "cursor" in request.query_params else None
    reader = QueryReader(request, types.ScheduleListQuery)
    selected = ScheduleSelection(
        tenant=caller_of(request).confined_to,
        flow=reader.one("flow", text_value, None),
        tag=reader.one("tag", text_value, None),
        paused=reader.one("paused", yes_or_no, None),
        q=reader.one("q", text_value, None),
    )
    limit = reader.one("limit", whole_number(1, types.SCHEDULE_LIMIT_MAX), types.SCHEDULE_LIMIT_DEFAULT)
    after = reader.one("cursor", cursor_value(cursors, selected), None)
    reader.check()
    page = await gateway.schedules.lists.page(selected, limit=limit, after=after)
    next_cursor = (
        None if page.next_after is None else (await gateway.cursors.get()).write(page.next_after, selected)
    )
    return json_response(
        types.SchedulePage(items=await _items(gateway, page.rows), next_cursor=next_cursor, total=page.total)
    )


@handles(endpoints.PREVIEW_SCHEDULE)
async def preview_schedule(request: Request) -> Response:
    body = await _read(request, types.PreviewRequest)
    now = gateway_of(request).timekeeper.now()
    # Rare expressions are searched day by day.
    spec = await asyncio.to_thread(checked_spec, body.spec, now=now)
    after = now if body.after is None else _moment("after", body.after, spec.timezone)
    return await _times(spec, after, body.n)


@handles(endpoints.GET_SCHEDULE)
async def get_schedule(request: Request, schedule_id: str) -> Response:
    return await _view(request, await _service(request).find(_name(request, schedule_id)))


@handles(endpoints.NEXT_TIMES)
async def get_next_times(request: Request, schedule_id: str) -> Response:
    query = _query(request, types.NextQuery)
    now = gateway_of(request).timekeeper.now()
    after = now if query.after is UNSET else _moment("after", query.after, "UTC")
    stored = await _service(request).find(_name(request, schedule_id, query))
    return await _times(stored.record.spec, after, _remaining(stored.record, query.n))


@handles(endpoints.PATCH_SCHEDULE)
async def patch_schedule(request: Request, schedule_id: str) -> Response:
    name = _name(request, schedule_id)
    body = await _read(request, types.SchedulePatch)
    fields = await _checked_fields(request, body)
    spec, revision = fields.pop("spec", None), fields.pop("revision", None)
    if not fields and spec is None:
        message = f"nothing to change; give some of {', '.join(types.SchedulePatch.__struct_fields__)}"
        raise InvalidRequest(problems=[FieldProblem("", message)])
    stored = await _service(request).patch(name, fields, _given(spec), revision=revision)
    return await _view(request, stored)


@handles(endpoints.DELETE_SCHEDULE)
async def delete_schedule(request: Request, schedule_id: str) -> Response:
    query = _query(request, types.DeleteScheduleQuery)
    revision = None if query.revision is UNSET else query.revision
    await _service(request).delete(_name(request, schedule_id, query), revision=revision)
    return json_response(types.ScheduleDeleted(schedule_id=schedule_id))


@handles(endpoints.PAUSE_SCHEDULE)
async def pause_schedule(request: Request, schedule_id: str) -> Response:
    name, note = _name(request, schedule_id), await _note(request)
    return await _view(request, await _service(request).pause(name, note))


@handles(endpoints.RESUME_SCHEDULE)
async def resume_schedule(request: Request, schedule_id: str) -> Response:
    name, note = _name(request, schedule_id), await _note(request)
    return await _view(request, await _service(request).resume(name, note))


@handles(endpoints.TRIGGER_SCHEDULE)
async def trigger_schedule(request: Request, schedule_id: str) -> Response:
    name = _name(request, schedule_id)
    body = await _read(request, types.TriggerRequest)
    if body.params is not UNSET:
        check_params(gateway_of(request).config, body.params)
    keyed = keyed_by_header(request, name.caller, "trigger schedule", name.key, body)
    started = await _service(request).trigger(name, request=keyed, **_given(body))
    return json_response(
        types.Triggered(schedule_id=schedule_id, run_id=started.run_id, outcome=started.outcome),
        REPLAYED if started.replayed else None,
    )


@handles(endpoints.BACKFILL_SCHEDULE)
async def backfill_schedule(request: Request, schedule_id: str) -> Response:
    name = _name(request, schedule_id)
    body = await _read(request, types.BackfillRequest)
    # Checked for a dry run too, which does not use it.
    keyed = keyed_by_header(request, name.caller, "backfill schedule", name.key, body)
    service = _service(request)
    spec = (await service.find(name)).record.spec
    start, end = _moment("from", body.from_, spec.timezone), _moment("to", body.to, spec.timezone)
    done = await service.backfill(
        name, from_at=start, to_at=end, overlap=body.overlap, dry_run=body.dry_run, request=keyed
    )
    first = await asyncio.to_thread(
        next_times, spec, after=just_before(start), n=min(done.count, types.SHOWN_TIMES)
    )
    return json_response(
        types.Backfilled(
            schedule_id=schedule_id,
            dry_run=body.dry_run,
            from_=start,
            to=end,
            count=done.count,
            times=[iso_in_zone(at, spec.timezone) for at in first],
            backfill_id=done.backfill_id,
        ),
        REPLAYED if done.replayed else None,
    )


@handles(endpoints.LIST_BACKFILLS)
async def list_backfills(request: Request, schedule_id: str) -> Response:
    found = await _service(request).backfills(_name(request, schedule_id))
    return json_response(types.BackfillList(items=[_backfill(each) for each in found]))


@handles(endpoints.CANCEL_BACKFILL)
async def cancel_backfill(request: Request, schedule_id: str, backfill_id: str) -> Response:
    done = await _service(request).cancel_backfill(_name(request, schedule_id), backfill_id)
    return json_response(
        types.BackfillCancelled(
            schedule_id=schedule_id, backfill_id=backfill_id, started=done.started, skipped=done.skipped
        )
    )


def _service(request: Request) -> ScheduleService:
    return gateway_of(request).schedules.service


# The fields that may take most of a body.
_LARGE: Final = ("params", "workflow_yaml", "note")
_EXPECTED: Final = {
    "tenant": "expected the tenant of the schedule (letters, digits, _ or -), or `=` for none",
    "revision": "expected the revision of the schedule, a whole number",
    "n": f"expected a whole number from 1 to {types.NEXT_MAX}",
    "after": "expected a time in unix seconds, such as 1760000000.5",
}


def _query(request: Request, kind: type[T]) -> T:
    expected = {name: _EXPECTED[name] for name in kind.__struct_fields__}
    return query_record(request, kind, expected, InvalidRequest)


def _name(request: Request, schedule_id: str, query: types.TenantQuery | None = None) -> ScheduleName:
    query = query or _query(request, types.TenantQuery)
    return ScheduleName(schedule_id, caller_of(request), None if query.tenant is UNSET else query.tenant)


async def _read(request: Request, kind: type[T]) -> T:
    """A record that may contain a flow.yaml, whose line ends and quotes take two bytes each in JSON."""
    config = gateway_of(request).config
    large = [name for name in _LARGE if name in kind.__struct_fields__]
    body = await limited_body(
        request,
        config.max_run_snapshot_bytes + 2 * config.workflow_yaml_max_bytes,
        # Which of its fields is too large is not known: the body is not read to its end.
        field="",
        cure=f"shorten {', '.join(large)}" if large else "shorten it",
    )
    return json_record(body or b"{}", kind)


async def _note(request: Request) -> str | None:
    body = await optional_record(request, types.PauseRequest, field="note", cure="shorten the note")
    return None if body.note is UNSET else body.note


async def _checked_fields(
    request: Request, body: types.ScheduleRequest | types.SchedulePatch
) -> dict[str, Any]:
    """The given fields of a schedule, checked as those of a submit."""
    config = gateway_of(request).config
    fields = _given(body)
    if "params" in fields:
        check_params(config, fields["params"])
    if "tag" in fields:
        fields["tag"] = fields["tag"] or config.default_tag
    if "tags" in fields:
        fields["tags"] = fields["tags"] or []
    if (text := fields.get("workflow_yaml")) is not None:
        source = text.encode()
        check_workflow_size(config, source)
        await checked_flow(source)
    return fields


def _given(record: Struct | None) -> dict[str, Any]:
    """The fields that are given, without those of records in it."""
    return (
        {}
        if record is None
        else {name: value for name, value in structs.asdict(record).items() if value is not UNSET}
    )


def _moment(field: str, given: Moment, zone: str) -> float:
    try:
        return moment_of(given, zone)
    except ValueError:
        message = "expected a time such as 2027-01-31T17:00:00+09:00, or unix seconds, before the year 9000"
        raise InvalidRequest(problems=[FieldProblem(field, message, value=shortened_json(given))]) from None


async def _view(
    request: Request, stored: StoredSchedule, status: int = HTTPStatus.OK, *, replayed: bool = False
) -> Response:
    record = stored.record
    now = gateway_of(request).timekeeper.now()
    coming = (
        OccurrenceSearch([])
        if record.paused
        else await asyncio.to_thread(
            search_times, record.spec, after=now, n=_remaining(record, types.SHOWN_TIMES)
        )
    )
    times = [iso_in_zone(at, record.spec.timezone) for at in coming.times]
    visible = {name: getattr(record, name) for name in VisibleSchedule.__struct_fields__}
    fields = {**visible, "spec": _spec_view(record.spec), "next_times": times}
    searched_until = None if times else coming.searched_until
    fields["problem"] = _problem(gateway_of(request), record.key, record.spec, searched_until)
    headers = REPLAYED if replayed else None
    return json_response(types.ScheduleView(**fields), headers, status=status)


def _remaining(record: ScheduleRecord, most: int) -> int:
    """How many more runs it starts, at most `most`."""
    return most if record.remaining_runs is None else min(most, record.remaining_runs)


def _spec_view(spec: ScheduleSpec) -> types.SpecView:
    return types.SpecView(**structs.asdict(spec))


async def _items(gateway: Gateway, rows: list[ScheduleRow]) -> list[types.ScheduleItem]:
    statuses = await gateway.listing.lists.statuses_of(row.last_run.run_id for row in rows if row.last_run)
    return [_item(row, statuses, _problem(gateway, row.key, row.spec, row.searched_until)) for row in rows]


def _problem(gateway: Gateway, key: str, spec: ScheduleSpec, searched_until: float | None) -> str | None:
    """Why this gateway cannot decide what is due, or does not know the next time; None: it can."""
    problem = gateway.schedules.runner.problems.get(key)
    if problem is None and searched_until is not None:
        return not_found_until(searched_until, spec)
    return problem


def _item(row: ScheduleRow, statuses: Mapping[str, str], problem: str | None) -> types.ScheduleItem:
    last_run = row.last_run
    status = None if last_run is None else statuses.get(last_run.run_id)
    return types.ScheduleItem(
        schedule_id=row.schedule_id,
        tenant_id=row.tenant_id,
        flow_name=row.flow_name,
        has_workflow_yaml=row.workflow,
        tag=row.tag,
        tags=list(row.tags),
        spec=_spec_view(row.spec),
        overlap=row.overlap,
        paused=row.paused,
        note=row.note,
        next_at=row.next_at,
        last_decision=row.last,
        last_run_id=None if last_run is None else last_run.run_id,
        last_run_status=None if status is None else RunStatus(status),
        last_scheduled_for=None if last_run is None else last_run.scheduled_for,
        problem=problem,
        created_at=row.created_at,
        updated_at=row.updated_at,
        revision=row.revision,
    )


def _backfill(progress: BackfillProgress) -> types.BackfillItem:
    backfill = progress.backfill
    return types.BackfillItem(
        backfill_id=backfill.backfill_id,
        from_=backfill.from_at,
        to=backfill.to_at,
        overlap=backfill.overlap,
        requested_at=backfill.requested_at,
        requested_by=backfill.requested_by,
        count=backfill.count,
        started=backfill.started,
        remaining=progress.remaining,
    )


async def _times(spec: ScheduleSpec, after: float, n: int) -> Response:
    found = await asyncio.to_thread(search_times, spec, after=after, n=n)
    times = [iso_in_zone(at, spec.timezone) for at in found.times]
    until = None if found.searched_until is None else iso_in_zone(found.searched_until, spec.timezone)
    return json_response(types.NextTimes(times=times, timezone=spec.timezone, searched_until=until))
