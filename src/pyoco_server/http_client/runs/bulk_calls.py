"""Calls about bulk operations, on runs or on dead letters."""

from __future__ import annotations

from typing import Any, Unpack

from pyoco_server.http_client import client_endpoints as api
from pyoco_server.http_client.call_types import ClientEndpoint, Query, Request, call, given
from pyoco_server.http_client.filter_params import BulkConsent, LetterFilter, RunFilter
from pyoco_server.http_client.response_types import BulkAnswer, BulkList, BulkOperation
from pyoco_server.http_client.runs.dlq_calls import letter_query


def bulk_cancel(
    run_filter: RunFilter,
    reason: str | None = None,
    *,
    idempotency_key: str | None = None,
    **consent: Unpack[BulkConsent],
) -> Request[BulkAnswer]:
    """Cancel every run that matches. A `dry_run` only counts them; its `token` allows the operation later.

    With an `idempotency_key` the same call may be made again after any failure, and there is one operation
    all the same; the client itself does so when the gateway is away.
    """
    body = given(**consent, reason=reason)
    return _bulk(api.BULK_CANCEL, given(**run_filter), body, idempotency_key)


def bulk_rerun(
    run_filter: RunFilter,
    mode: str | None = None,
    *,
    keep_answers: bool = False,
    idempotency_key: str | None = None,
    **consent: Unpack[BulkConsent],
) -> Request[BulkAnswer]:
    """Repeat every run that matches and has ended, as new runs; `keep_answers` as in `rerun`.

    The rest is as in `bulk_cancel`.
    """
    body = given(**consent, mode=mode, keep_answers=keep_answers or None)
    return _bulk(api.BULK_RERUN, given(**run_filter), body, idempotency_key)


def bulk_replay_dlq(
    letter_filter: LetterFilter,
    mode: str | None = None,
    *,
    delete: bool = False,
    idempotency_key: str | None = None,
    **consent: Unpack[BulkConsent],
) -> Request[BulkAnswer]:
    """Replay every dead letter that matches; the rest is as in `bulk_cancel`."""
    body = given(**consent, mode=mode, delete=delete or None)
    return _bulk(api.REPLAY_LETTERS, letter_query(letter_filter), body, idempotency_key)


def bulk_delete_dlq(
    letter_filter: LetterFilter, *, idempotency_key: str | None = None, **consent: Unpack[BulkConsent]
) -> Request[BulkAnswer]:
    """Remove every dead letter that matches; the rest is as in `bulk_cancel`."""
    return _bulk(api.DELETE_LETTERS, letter_query(letter_filter), given(**consent), idempotency_key)


def list_bulk() -> Request[BulkList]:
    """The newest bulk operations and their progress."""
    return call(api.LIST_BULK)


def get_bulk(bulk_id: str) -> Request[BulkOperation]:
    """The progress of a bulk operation."""
    return call(api.GET_BULK, bulk_id=bulk_id)


def stop_bulk(bulk_id: str) -> Request[BulkOperation]:
    """Stop a bulk operation after the items in hand; what is done stays done."""
    return call(api.STOP_BULK, body={}, bulk_id=bulk_id)


def _bulk(
    endpoint: ClientEndpoint, query: Query, body: dict[str, Any], key: str | None
) -> Request[BulkAnswer]:
    return call(endpoint, query, body, repeatable=bool(body.get("dry_run")), key=key)
