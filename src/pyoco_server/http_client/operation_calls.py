"""Calls about flows, workers, dead letters, bulk operations, and the state of a gateway."""

from __future__ import annotations

from typing import Any, Unpack

from pyoco_server.http_client import client_endpoints as api
from pyoco_server.http_client.call_types import ClientEndpoint, Pages, Query, Request, call, given
from pyoco_server.http_client.filter_params import BulkConsent, LetterFilter, RunFilter
from pyoco_server.http_client.response_types import (
    BulkAnswer,
    BulkList,
    BulkOperation,
    DeletedLetter,
    FlowItem,
    FlowPage,
    FlowView,
    Health,
    KeyAccess,
    Letter,
    LetterPage,
    ReplayedLetter,
    RunGraph,
    Worker,
    WorkerChange,
    WorkerSetup,
)


def list_flows(
    tag: str | None = None, search: str | None = None, limit: int | None = None, cursor: str | None = None
) -> Request[FlowPage]:
    """A page of the flows that workers have or that have runs, in the order of their names.

    `search` is anywhere in the name or the description.
    """
    return call(api.LIST_FLOWS, given(tag=tag, search=search, limit=limit, cursor=cursor))


def iter_flows(tag: str | None = None, search: str | None = None, page_size: int = 200) -> Pages[FlowItem]:
    """Every flow that matches, page after page."""
    return Pages(page=lambda cursor: list_flows(tag, search, page_size, cursor), items="flows")


def get_flow(flow_name: str, tag: str | None = None) -> Request[FlowView]:
    """A flow: its parameters as JSON Schema, tasks, graph, workers and statistics.

    With a `tag`, as workers of that tag have it.
    """
    return call(api.GET_FLOW, given(tag=tag), flow_name=flow_name)


def get_run_graph(run_id: str) -> Request[RunGraph]:
    """The tasks of a run and the order between them, also before it has started."""
    return call(api.GET_RUN_GRAPH, run_id=run_id)


def list_workers(
    *,
    scope: str | None = None,
    state: str | None = None,
    include_hidden: bool = False,
    limit: int | None = None,
) -> Request[list[Worker]]:
    """The workers that are active; `scope="all"` or a `state` also finds those that are gone."""
    query = given(scope=scope, state=state, include_hidden="true" if include_hidden else None, limit=limit)
    return call(api.LIST_WORKERS, query)


def get_worker(worker_id: str) -> Request[Worker]:
    """One worker, hidden or not, whatever its state."""
    return call(api.GET_WORKER, worker_id=worker_id)


def get_worker_setup() -> Request[WorkerSetup]:
    """The command that adds a worker to the installation of this gateway."""
    return call(api.GET_WORKER_SETUP)


def update_worker(
    worker_id: str, *, hidden: bool | None = None, paused: bool | None = None, drain: bool | None = None
) -> Request[WorkerChange]:
    """Hide a worker, pause it (it takes no new runs), or have it finish what runs and end (drain)."""
    body = given(hidden=hidden, paused=paused, drain=drain)
    return call(api.PATCH_WORKER, body=body, worker_id=worker_id)


def metrics() -> Request[str]:
    """The gateway's metrics, as Prometheus reads them."""
    return call(api.METRICS, read=lambda response: response.text)


def health() -> Request[Health]:
    """The health of the gateway, its connection to NATS and its index."""
    return call(api.HEALTH)


def key() -> Request[KeyAccess]:
    """What the key of the client may do."""
    return call(api.GET_KEY)


def list_dlq(
    limit: int | None = None, cursor: str | None = None, **selected: Unpack[LetterFilter]
) -> Request[LetterPage]:
    """A page of the dead letters, the newest first; it may be empty although more follow."""
    return call(api.LIST_LETTERS, given(limit=limit, cursor=cursor) | _letter_query(selected))


def iter_dlq(page_size: int = 200, **selected: Unpack[LetterFilter]) -> Pages[Letter]:
    """Every dead letter that matches, page after page."""
    return Pages(page=lambda cursor: list_dlq(page_size, cursor, **selected))


def get_dlq(seq: int) -> Request[Letter]:
    """One dead letter."""
    return call(api.GET_LETTER, seq=seq)


def replay_dlq(
    seq: int, *, mode: str | None = None, delete: bool = False, idempotency_key: str | None = None
) -> Request[ReplayedLetter]:
    """Replay a dead letter: rerun its run; `delete` removes the letter then, and `deleted` says so.

    An `idempotency_key` is as in `submit_run`.
    """
    body = given(mode=mode, delete=delete or None)
    return call(api.REPLAY_LETTER, body=body, key=idempotency_key, seq=seq)


def delete_dlq(seq: int) -> Request[DeletedLetter]:
    """Remove a dead letter; its run stays."""
    return call(api.DELETE_LETTER, seq=seq)


def bulk_cancel(
    wanted: RunFilter,
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
    return _bulk(api.BULK_CANCEL, given(**wanted), body, idempotency_key)


def bulk_rerun(
    wanted: RunFilter,
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
    return _bulk(api.BULK_RERUN, given(**wanted), body, idempotency_key)


def bulk_replay_dlq(
    wanted: LetterFilter,
    mode: str | None = None,
    *,
    delete: bool = False,
    idempotency_key: str | None = None,
    **consent: Unpack[BulkConsent],
) -> Request[BulkAnswer]:
    """Replay every dead letter that matches; the rest is as in `bulk_cancel`."""
    body = given(**consent, mode=mode, delete=delete or None)
    return _bulk(api.REPLAY_LETTERS, _letter_query(wanted), body, idempotency_key)


def bulk_delete_dlq(
    wanted: LetterFilter, *, idempotency_key: str | None = None, **consent: Unpack[BulkConsent]
) -> Request[BulkAnswer]:
    """Remove every dead letter that matches; the rest is as in `bulk_cancel`."""
    return _bulk(api.DELETE_LETTERS, _letter_query(wanted), given(**consent), idempotency_key)


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


def _letter_query(wanted: LetterFilter) -> dict[str, Any]:
    reasons = ",".join(wanted.get("reason", ()))
    seqs = ",".join(map(str, wanted.get("seq", ())))
    return given(**{**wanted, "reason": reasons or None, "seq": seqs or None})
