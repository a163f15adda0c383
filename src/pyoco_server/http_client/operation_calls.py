"""The questions of whoever looks after the server: workers, metrics, dead letters, and many runs at once.

These are methods of both clients, as those of endpoints.py are.
"""

from __future__ import annotations

from typing import Any, Unpack

from pyoco_server.http_client.call_types import Pages, Query, Request, array_in, get, given, post, quoted
from pyoco_server.http_client.filter_params import BulkConsent, LetterFilter, RunFilter
from pyoco_server.http_client.response_types import (
    BulkAnswer,
    BulkList,
    BulkOperation,
    DeletedLetter,
    Letter,
    LetterPage,
    ReplayedLetter,
    Worker,
    WorkerChange,
)


def list_workers(
    *,
    scope: str | None = None,
    state: str | None = None,
    include_hidden: bool = False,
    limit: int | None = None,
) -> Request[list[Worker]]:
    """The workers that are active; `scope="all"` or a `state` also finds those that are gone."""
    query = given(scope=scope, state=state, include_hidden="true" if include_hidden else None, limit=limit)
    return Request(method="GET", path="/workers", query=query, read=array_in, repeatable=True)


def get_worker(worker_id: str) -> Request[Worker]:
    """One worker, hidden or not, whatever its state."""
    return get(f"/workers/{quoted(worker_id)}")


def update_worker(
    worker_id: str, *, hidden: bool | None = None, paused: bool | None = None, drain: bool | None = None
) -> Request[WorkerChange]:
    """Hide a worker, pause it (it takes no new runs), or have it finish what runs and end (drain)."""
    return Request(
        method="PATCH",
        path=f"/workers/{quoted(worker_id)}",
        json=given(hidden=hidden, paused=paused, drain=drain),
        repeatable=True,
    )


def metrics() -> Request[str]:
    """The gateway's metrics, as Prometheus reads them."""
    return Request(method="GET", path="/metrics", read=lambda response: response.text, repeatable=True)


def health() -> Request[dict[str, Any]]:
    """How the gateway and its connection to NATS are."""
    return get("/health")


def list_dlq(
    limit: int | None = None, cursor: str | None = None, **wanted: Unpack[LetterFilter]
) -> Request[LetterPage]:
    """A page of the dead letters, the newest first; it may be empty although more follow."""
    return get("/dlq", given(limit=limit, cursor=cursor) | _letter_query(wanted))


def iter_dlq(page_size: int = 200, **wanted: Unpack[LetterFilter]) -> Pages[Letter]:
    """Every dead letter that matches, page after page."""
    return Pages(
        page=lambda cursor: list_dlq(page_size, cursor, **wanted),
        items="items",
        next=lambda page, _: page.get("next_cursor"),
    )


def get_dlq(seq: int) -> Request[Letter]:
    """One dead letter."""
    return get(f"/dlq/{seq}")


def replay_dlq(
    seq: int, *, mode: str | None = None, delete: bool = False, idempotency_key: str | None = None
) -> Request[ReplayedLetter]:
    """Repeat the run of a dead letter as a new run; `delete` removes the letter then, and `deleted` says so.

    An `idempotency_key` is as in `submit_run`.
    """
    return post(f"/dlq/{seq}/replay", given(mode=mode, delete=delete or None), key=idempotency_key)


def delete_dlq(seq: int) -> Request[DeletedLetter]:
    """Remove a dead letter; its run stays."""
    # The second time it would not be there, which is no answer to whether the first one did it.
    return Request(method="DELETE", path=f"/dlq/{seq}", repeatable=False)


def bulk_cancel(
    wanted: RunFilter,
    reason: str | None = None,
    *,
    idempotency_key: str | None = None,
    **consent: Unpack[BulkConsent],
) -> Request[BulkAnswer]:
    """Cancel every run that matches. A `dry_run` only counts them, and its `token` allows to do it then.

    With an `idempotency_key` the same call may be made again after any failure, and there is one operation
    all the same; the client itself does so when the gateway is away.
    """
    body = given(**consent, reason=reason)
    return _bulk("/bulk/cancel", given(**wanted), body, idempotency_key)


def bulk_rerun(
    wanted: RunFilter,
    mode: str | None = None,
    *,
    idempotency_key: str | None = None,
    **consent: Unpack[BulkConsent],
) -> Request[BulkAnswer]:
    """Repeat every run that matches and has ended, as new runs; the rest is as in `bulk_cancel`."""
    return _bulk("/bulk/rerun", given(**wanted), given(**consent, mode=mode), idempotency_key)


def bulk_replay_dlq(
    wanted: LetterFilter,
    mode: str | None = None,
    *,
    delete: bool = False,
    idempotency_key: str | None = None,
    **consent: Unpack[BulkConsent],
) -> Request[BulkAnswer]:
    """Repeat the run of every dead letter that matches; the rest is as in `bulk_cancel`."""
    body = given(**consent, mode=mode, delete=delete or None)
    return _bulk("/dlq/replay", _letter_query(wanted), body, idempotency_key)


def bulk_delete_dlq(
    wanted: LetterFilter, *, idempotency_key: str | None = None, **consent: Unpack[BulkConsent]
) -> Request[BulkAnswer]:
    """Remove every dead letter that matches; the rest is as in `bulk_cancel`."""
    return _bulk("/dlq/delete", _letter_query(wanted), given(**consent), idempotency_key)


def list_bulk() -> Request[BulkList]:
    """The newest bulk operations, and how far each has come."""
    return get("/bulk")


def get_bulk(bulk_id: str) -> Request[BulkOperation]:
    """How far a bulk operation has come."""
    return get(f"/bulk/{quoted(bulk_id)}")


def stop_bulk(bulk_id: str) -> Request[BulkOperation]:
    """Stop a bulk operation after what it has in hand; what is done stays done."""
    return post(f"/bulk/{quoted(bulk_id)}/stop", {}, repeatable=True)


def _bulk(path: str, query: Query, body: dict[str, Any], key: str | None) -> Request[BulkAnswer]:
    return post(path, body, query=query, repeatable=bool(body.get("dry_run")), key=key)


def _letter_query(wanted: LetterFilter) -> dict[str, Any]:
    reasons = ",".join(wanted.get("reason", ()))
    return given(**{**wanted, "reason": reasons or None})
