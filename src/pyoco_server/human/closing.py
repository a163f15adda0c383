"""Closing a wait that nobody has to answer any more, because its run is over or does not need the answer."""

import time

from msgspec import structs

from pyoco_server.broker.stores.wait_events import WaitEvents
from pyoco_server.broker.stores.wait_store import WaitStore
from pyoco_server.human.notifications.event_outbox import write_outcome
from pyoco_server.records.wait_models import WaitEvent, WaitEventKind, WaitRecord, WaitState


async def close_wait(store: WaitStore, events: WaitEvents, wait_id: str, why: str) -> WaitRecord | None:
    """Cancel the wait unless it is decided already; what it is afterwards, or None if there is no such."""
    while True:
        stored = await store.get_from_leader(wait_id)
        if stored is None or stored.record.state is not WaitState.OPEN:
            return None if stored is None else stored.record
        closed = structs.replace(stored.record, state=WaitState.CANCELLED, decided_at=time.time(), note=why)
        event = event_of(closed, WaitEventKind.CANCELLED, why=why)
        if await write_outcome(store, events, stored, closed, event):
            return closed


def event_of(wait: WaitRecord, kind: WaitEventKind, *, why: str | None = None) -> WaitEvent:
    """What is told of a wait when it was opened or decided: the same whoever tells it, and however often."""
    decided = kind is not WaitEventKind.OPENED
    return WaitEvent(
        event_id=f"{wait.wait_id}.{kind}",
        kind=kind,
        wait_id=wait.wait_id,
        run_id=wait.run_id,
        at=wait.decided_at if decided and wait.decided_at is not None else wait.created_at,
        tenant_id=wait.tenant_id,
        actor=wait.decided_by,
        decision=wait.decision,
        decision_id=wait.decision_id,
        why=why,
    )
