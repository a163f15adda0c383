"""Doing something to all that matches a filter, to runs or to dead letters, and how far that is."""

from collections.abc import Mapping
from typing import Annotated, TypeVar

import msgspec
from fastapi import APIRouter
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.errors import FieldProblem, InvalidRequest
from pyoco_server.http_api.gateway import gateway_of
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.requests.bodies import optional_record
from pyoco_server.http_api.requests.idempotency_header import REPLAYED, idempotency_key
from pyoco_server.http_api.requests.run_query import run_filter_of
from pyoco_server.http_api.routes.dlq_routes import check_mode, letter_filter_of
from pyoco_server.records.models import RerunMode
from pyoco_server.records.operation_models import MAX_BULK_ITEMS, BulkAction, BulkRecord
from pyoco_server.runs.bulk import bulk_operations as bulk
from pyoco_server.runs.bulk.bulk_operations import (
    BulkWish,
    MatchingLetters,
    MatchingRuns,
    Selection,
)

router = APIRouter()

T = TypeVar("T", bound="BulkRequest")

_MOST_LISTED = 100


class BulkRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Exactly one of these: only count; do it unless more match; do it as it was counted."""

    dry_run: bool = False
    expected_count: Annotated[int, Meta(ge=0, le=MAX_BULK_ITEMS)] | None = None
    token: Annotated[str, Meta(min_length=1, max_length=100)] | None = None

    def expected(self, wish: BulkWish) -> int | None:
        """How many may match; None for a dry run."""
        given = (self.dry_run, self.expected_count is not None, self.token is not None)
        if sum(given) != 1:
            wanted = (
                'wanted one of "dry_run": true (only counts), "expected_count" and "token" (of a dry run)'
            )
            raise InvalidRequest(problems=[FieldProblem("dry_run", wanted)])
        return wish.expected_by(self.token) if self.token is not None else self.expected_count


class BulkCancelRequest(BulkRequest, kw_only=True, forbid_unknown_fields=True):
    """Cancel the runs, for this reason."""

    reason: Annotated[str, Meta(max_length=1000)] | None = None


class BulkRerunRequest(BulkRequest, kw_only=True, forbid_unknown_fields=True):
    """Repeat the runs from here: `start` or `failed`."""

    mode: RerunMode = RerunMode.START


class BulkReplayRequest(BulkRerunRequest, kw_only=True, forbid_unknown_fields=True):
    """Repeat the runs of the letters, and remove the letters if so wished."""

    delete: bool = False


class BulkAnswer(Struct, kw_only=True):
    """How many match and some of them; after a dry run a token, else the operation that has begun."""

    action: BulkAction
    dry_run: bool
    matched: int
    sample: list[str]
    token: str | None = None
    operation: BulkRecord | None = None


class BulkList(Struct, kw_only=True):
    """Bulk operations, newest first."""

    items: list[BulkRecord]


@router.post("/bulk/cancel", response_class=Response)
async def cancel_matching(request: Request) -> Response:
    """Cancel every run that matches the query, with the filters of `GET /runs`."""
    selection = MatchingRuns(gateway_of(request).listing.lists, run_filter_of(request))
    asked = await _body(request, BulkCancelRequest)
    wish = BulkWish(action=BulkAction.CANCEL, query=_query(request), reason=asked.reason)
    return await _answer(request, asked, wish, selection)


@router.post("/bulk/rerun", response_class=Response)
async def rerun_matching(request: Request) -> Response:
    """Repeat every run that matches the query, with the filters of `GET /runs`."""
    selection = MatchingRuns(gateway_of(request).listing.lists, run_filter_of(request))
    asked = await _body(request, BulkRerunRequest)
    check_mode(asked.mode)
    wish = BulkWish(action=BulkAction.RERUN, query=_query(request), mode=asked.mode)
    return await _answer(request, asked, wish, selection)


@router.post("/dlq/replay", response_class=Response)
async def replay_matching(request: Request) -> Response:
    """Repeat the runs of every dead letter that matches the query, with the filters of `GET /dlq`."""
    selection = MatchingLetters(gateway_of(request).dead_letters, letter_filter_of(request))
    asked = await _body(request, BulkReplayRequest)
    check_mode(asked.mode)
    wish = BulkWish(
        action=BulkAction.REPLAY_LETTERS, query=_query(request), mode=asked.mode, delete=asked.delete
    )
    return await _answer(request, asked, wish, selection)


@router.post("/dlq/delete", response_class=Response)
async def delete_matching(request: Request) -> Response:
    """Remove every dead letter that matches the query, with the filters of `GET /dlq`."""
    selection = MatchingLetters(gateway_of(request).dead_letters, letter_filter_of(request))
    asked = await _body(request, BulkRequest)
    wish = BulkWish(action=BulkAction.DELETE_LETTERS, query=_query(request))
    return await _answer(request, asked, wish, selection)


@router.get("/bulk", response_class=Response)
async def list_bulk(request: Request) -> Response:
    """The newest bulk operations."""
    records, _ = await gateway_of(request).bulk.records.written_since(0)
    caller = caller_of(request)
    seen = (record for record in records if caller.sees(record.tenant_id))
    newest = sorted(seen, key=lambda record: -record.created_at)[:_MOST_LISTED]
    return _json(BulkList(items=newest))


@router.get("/bulk/{bulk_id}", response_class=Response)
async def get_bulk(request: Request, bulk_id: str) -> Response:
    """How far a bulk operation is."""
    found = await bulk.find(gateway_of(request).bulk.records, bulk_id, caller_of(request))
    return _json(found.record)


@router.post("/bulk/{bulk_id}/stop", response_class=Response)
async def stop_bulk(request: Request, bulk_id: str) -> Response:
    """End a bulk operation after the items in hand; what was done stays done."""
    return _json(await bulk.stop(gateway_of(request).bulk.records, bulk_id, caller_of(request)))


async def _body(request: Request, kind: type[T]) -> T:
    return await optional_record(request, kind, field="token", cure="it takes a few short fields")


async def _answer(request: Request, asked: BulkRequest, wish: BulkWish, selection: Selection) -> Response:
    expected = asked.expected(wish)
    # Checked for a dry run too, which has no use for it.
    key = idempotency_key(request)
    if expected is None:
        counted = await bulk.count(selection)
        return _json(
            BulkAnswer(
                action=wish.action,
                dry_run=True,
                matched=counted.matched,
                sample=counted.sample,
                token=wish.token(counted.matched),
            )
        )
    gateway = gateway_of(request)
    caller = caller_of(request)
    keyed = None if key is None else wish.keyed(key, caller)
    begun = await gateway.bulk.starter.begin(selection, wish, caller, expected=expected, request=keyed)
    record = begun.record
    gateway.bulk.runner.work_on(record.bulk_id)
    answer = BulkAnswer(
        action=wish.action,
        dry_run=False,
        matched=record.matched,
        sample=begun.sample,
        operation=record,
    )
    return _json(answer, REPLAYED if begun.replayed else None)


def _query(request: Request) -> dict[str, list[str]]:
    return {name: request.query_params.getlist(name) for name in sorted(set(request.query_params))}


def _json(body: Struct, headers: Mapping[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(body), headers=headers, media_type="application/json")
