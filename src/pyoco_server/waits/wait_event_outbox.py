"""Events of waits, stored in the outbox of the wait's record and published from there.

The writer of a record publishes its events right after the write. When that fails, they stay in the outbox;
the gateways look for such records and publish them. An event may be published twice, with the same id.
"""

import logging
import time
from collections.abc import Iterable

from msgspec import structs

from pyoco_server.broker.jetstream.publishing import RevisionConflict, read_back
from pyoco_server.broker.stores.waits.wait_event_log import WaitEventLog
from pyoco_server.broker.stores.waits.wait_store import StoredWait, WaitStore
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.waits.wait_models import WaitEvent, WaitRecord, WaitState
from pyoco_server.waits.wait_transitions import event_for_state

log = logging.getLogger(__name__)


async def publish_outbox(events: WaitEventLog, outbox: Iterable[WaitEvent]) -> None:
    """Publish what was just stored; what cannot be published stays in the outbox."""
    for event in outbox:
        try:
            await events.publish(event)
        except NatsUnavailable as error:
            extra = {"wait_id": event.wait_id, "run_id": event.run_id}
            log.warning("event %s will be published later: %s", event.event_id, error, extra=extra)


async def write_transition(
    waits: WaitStore,
    events: WaitEventLog,
    wait: StoredWait,
    changed: WaitRecord,
    event: WaitEvent | None = None,
) -> bool:
    """Write the changed wait and publish its event (by default that of its state; none if it asks nobody).

    False when the wait was written since it was read.
    """
    outbox = [*wait.outbox, event or event_for_state(changed)] if changed.is_human else []
    try:
        await waits.replace(changed, wait.revision, outbox=outbox)
    except RevisionConflict:
        return False
    except NatsUnavailable as failure:
        found = await read_back(waits.find_from_leader(changed.wait_id), failure)
        if found is None or found.record != changed:
            raise
    await publish_outbox(events, outbox)
    return True


async def flush_outbox(waits: WaitStore, events: WaitEventLog, wait_id: str) -> None:
    """Publish the events of the outbox that are not in the stream, then empty the outbox."""
    while (stored := await waits.find_from_leader(wait_id)) is not None and stored.outbox:
        for event in stored.outbox:
            if not await events.has(event):
                await events.publish(event)
        try:
            await waits.replace(stored.record, stored.revision)
        except RevisionConflict:
            extra = {"wait_id": wait_id, "run_id": stored.record.run_id}
            log.debug("a wait was written while its events were published", extra=extra)


async def close_wait(store: WaitStore, events: WaitEventLog, wait_id: str, why: str) -> WaitRecord | None:
    """Cancel the wait unless it is decided; returns the wait after that, or None if there is none."""
    while True:
        stored = await store.find_from_leader(wait_id)
        if stored is None or stored.record.state is not WaitState.OPEN:
            return None if stored is None else stored.record
        closed = structs.replace(stored.record, state=WaitState.CANCELLED, decided_at=time.time(), note=why)
        if await write_transition(store, events, stored, closed):
            return closed
