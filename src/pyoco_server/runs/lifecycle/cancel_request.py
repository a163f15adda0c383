"""Cancelling a run: the request is stored by compare-and-set, and its owner is notified.

A run without an owner (not started, or with open waits) is ended here. A run with an owner is ended by that,
which finds the request with its next write if the notification is lost.
"""

import logging
import time

from msgspec import UNSET, structs

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.publishing import RevisionConflict, read_back
from pyoco_server.broker.queue.wake_up import wake_owner
from pyoco_server.broker.stores.runs.run_store import RunStore, StoredRun
from pyoco_server.errors import NatsUnavailable, RunConflict
from pyoco_server.records.runs.run_models import RunSnapshot, RunStatus
from pyoco_server.runs.lifecycle.tenancy import Caller, find_run
from pyoco_server.runs.lifecycle.waiting_state import cleared_wait_fields

log = logging.getLogger(__name__)


async def cancel_run(
    connection: Connection,
    store: RunStore,
    run_id: str,
    caller: Caller,
    *,
    by: str | None = None,
    reason: str | None = None,
    force: bool = False,
) -> RunSnapshot:
    """The snapshot with the request. An ended run is returned as it is; a second request changes nothing.

    `by` defaults to the caller's key. `force` ends the run without a grace period. It replaces an earlier
    request that did not, with its time, author and reason.
    """
    stored = await _store_request(
        store, run_id, caller, by=by or caller.api_key_id, reason=reason, force=force
    )
    snapshot = stored.snapshot
    if snapshot.status.terminal:
        return snapshot
    try:
        if snapshot.delivery is None:
            await store.replace(_cancelled(snapshot), revision=stored.revision)
        elif snapshot.worker_id is not None:
            await wake_owner(connection, worker_id=snapshot.worker_id, run_id=run_id)
    except RevisionConflict:
        log.info("a worker has just started the run, and will cancel it", extra={"run_id": run_id})
    except NatsUnavailable as error:
        # The owner or the sweep finds the stored request.
        log.warning(
            "the cancel request is stored, its owner is not notified: %s", error, extra={"run_id": run_id}
        )
    return snapshot


async def _store_request(
    store: RunStore, run_id: str, caller: Caller, *, by: str | None, reason: str | None, force: bool
) -> StoredRun:
    while True:
        stored = await find_run(store, run_id, caller)
        snapshot = stored.snapshot
        if snapshot.status.terminal or _is_requested(snapshot, force):
            return stored
        if not snapshot.status.known:
            raise RunConflict(
                f"run {run_id} is {snapshot.status}, a status of a newer version; cancel it there"
            )
        now = time.time()
        requested = structs.replace(
            snapshot,
            status=RunStatus.CANCELLING,
            cancel_requested_at=now,
            cancel_requested_by=by,
            cancel_reason=reason,
            cancel_force=force or UNSET,
            updated_at=now,
        )
        try:
            return StoredRun(requested, await store.replace(requested, revision=stored.revision))
        except RevisionConflict:
            continue
        except NatsUnavailable as failure:
            stored = await read_back(find_run(store, run_id, caller), failure)
            if not stored.snapshot.status.terminal and not _is_requested(stored.snapshot, force):
                raise
            return stored


def _is_requested(snapshot: RunSnapshot, force: bool) -> bool:
    return snapshot.cancel_requested_at is not None and (snapshot.cancel_force is True or not force)


def _cancelled(snapshot: RunSnapshot) -> RunSnapshot:
    now = time.time()
    return structs.replace(
        snapshot,
        status=RunStatus.CANCELLED,
        tasks={name: state.when_run_ends(RunStatus.CANCELLED) for name, state in snapshot.tasks.items()},
        end_time=now,
        updated_at=now,
        **cleared_wait_fields(snapshot),
    )
