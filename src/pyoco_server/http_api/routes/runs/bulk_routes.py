"""Bulk operations: on all runs or dead letters that match a filter, and their progress."""

from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.api import bulk_types
from pyoco_server.api.endpoints.runs import bulk_endpoints as endpoints
from pyoco_server.errors import FieldProblem, InvalidRequest
from pyoco_server.http_api.gateway import gateway_of
from pyoco_server.http_api.middleware.principal import caller_of
from pyoco_server.http_api.requests.bodies import optional_record
from pyoco_server.http_api.requests.idempotency_header import REPLAYED, idempotency_key
from pyoco_server.http_api.requests.query import run_filter_of
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.routes.runs.dlq_routes import check_mode, letter_filter_of
from pyoco_server.http_api.routing import handles
from pyoco_server.records.runs.bulk_models import BulkAction
from pyoco_server.runs.bulk import bulk_operations as bulk

T = TypeVar("T", bound=bulk_types.BulkRequest)

_MAX_LISTED = 100


@handles(endpoints.BULK_CANCEL)
async def cancel_matching(request: Request) -> Response:
    selection = bulk.MatchingRuns(gateway_of(request).listing.lists, run_filter_of(request))
    body = await _body(request, bulk_types.BulkCancelRequest)
    spec = bulk.BulkSpec(action=BulkAction.CANCEL, query=_query(request), reason=body.reason)
    return await _respond(request, body, spec, selection)


@handles(endpoints.BULK_RERUN)
async def rerun_matching(request: Request) -> Response:
    selection = bulk.MatchingRuns(gateway_of(request).listing.lists, run_filter_of(request))
    body = await _body(request, bulk_types.BulkRerunRequest)
    check_mode(body.mode)
    spec = bulk.BulkSpec(
        action=BulkAction.RERUN, query=_query(request), mode=body.mode, keep_answers=body.keep_answers
    )
    return await _respond(request, body, spec, selection)


@handles(endpoints.REPLAY_LETTERS)
async def replay_matching(request: Request) -> Response:
    selection = _matching_letters(request)
    body = await _body(request, bulk_types.BulkReplayRequest)
    check_mode(body.mode)
    spec = bulk.BulkSpec(
        action=BulkAction.REPLAY_LETTERS, query=_query(request), mode=body.mode, delete=body.delete
    )
    return await _respond(request, body, spec, selection)


@handles(endpoints.DELETE_LETTERS)
async def delete_matching(request: Request) -> Response:
    selection = _matching_letters(request)
    body = await _body(request, bulk_types.BulkRequest)
    spec = bulk.BulkSpec(action=BulkAction.DELETE_LETTERS, query=_query(request))
    return await _respond(request, body, spec, selection)


@handles(endpoints.LIST_BULK)
async def list_bulk(request: Request) -> Response:
    records, _ = await gateway_of(request).bulk.records.written_since(0)
    caller = caller_of(request)
    seen = (record for record in records if caller.sees(record.tenant_id))
    newest = sorted(seen, key=lambda record: -record.created_at)[:_MAX_LISTED]
    return json_response(bulk_types.BulkList(items=newest))


@handles(endpoints.GET_BULK)
async def get_bulk(request: Request, bulk_id: str) -> Response:
    found = await bulk.find(gateway_of(request).bulk.records, bulk_id, caller_of(request))
    return json_response(found.record)


@handles(endpoints.STOP_BULK)
async def stop_bulk(request: Request, bulk_id: str) -> Response:
    return json_response(await bulk.stop(gateway_of(request).bulk.records, bulk_id, caller_of(request)))


def _matching_letters(request: Request) -> bulk.MatchingLetters:
    gateway = gateway_of(request)
    reruns = gateway.listing.lists.decisive_reruns
    return bulk.MatchingLetters(gateway.dead_letters, letter_filter_of(request), reruns)


async def _body(request: Request, kind: type[T]) -> T:
    return await optional_record(request, kind, field="token", cure="it takes a few short fields")


async def _respond(
    request: Request, body: bulk_types.BulkRequest, spec: bulk.BulkSpec, selection: bulk.Selection
) -> Response:
    expected = _expected_count(body, spec)
    # Checked for a dry run too, which does not use it.
    key = idempotency_key(request)
    if expected is None:
        counted = await bulk.count(selection)
        return json_response(
            bulk_types.BulkAnswer(
                action=spec.action,
                dry_run=True,
                matched=counted.matched,
                sample=counted.sample,
                token=spec.token(counted.matched),
            )
        )
    gateway = gateway_of(request)
    caller = caller_of(request)
    keyed = None if key is None else spec.keyed(key, caller)
    submitted = await gateway.bulk.starter.submit(selection, spec, caller, expected=expected, request=keyed)
    record = submitted.record
    gateway.bulk.runner.work_on(record.bulk_id)
    response = bulk_types.BulkAnswer(
        action=spec.action,
        dry_run=False,
        matched=record.matched,
        sample=submitted.sample,
        operation=record,
    )
    return json_response(response, REPLAYED if submitted.replayed else None)


def _expected_count(body: bulk_types.BulkRequest, spec: bulk.BulkSpec) -> int | None:
    """How many may match; None for a dry run."""
    choices = {
        "dry_run": body.dry_run,
        "expected_count": body.expected_count is not None,
        "token": body.token is not None,
    }
    given = [name for name, is_given in choices.items() if is_given]
    if len(given) != 1:
        found = " and ".join(given) or "none of them"
        message = (
            'give exactly one of "dry_run": true (only counts), "expected_count", or "token" (of a dry run); '
            f"the request has {found}"
        )
        raise InvalidRequest(problems=[FieldProblem("dry_run", message)])
    return body.expected_count if body.token is None else spec.expected_by(body.token)


def _query(request: Request) -> dict[str, list[str]]:
    return {name: request.query_params.getlist(name) for name in sorted(set(request.query_params))}
