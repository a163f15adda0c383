"""The events of a wait are stored with its record, and published from there.

Whoever writes the record publishes its events right after it. When that fails, or its process dies in
between, they are still in the record: the gateways look for records with an outbox, publish what is missing,
and empty it. An event may be published twice, under the same id.
"""

import logging
from collections.abc import Iterable

from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.jetstream.unacknowledged import look_again
from pyoco_server.broker.stores.wait_events import WaitEvents
from pyoco_server.broker.stores.wait_store import StoredWait, WaitStore
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.wait_models import WaitEvent, WaitRecord

log = logging.getLogger(__name__)


async def publish_now(events: WaitEvents, outbox: Iterable[WaitEvent]) -> None:
    """Publish what was just stored; what cannot be published stays in the outbox."""
    for event in outbox:
        try:
            await events.publish(event)
        except NatsUnavailable as error:
            extra = {"wait_id": event.wait_id, "run_id": event.run_id}
            log.warning("event %s is published later: %s", event.event_id, error, extra=extra)


async def write_outcome(
    waits: WaitStore, events: WaitEvents, wait: StoredWait, outcome: WaitRecord, event: WaitEvent
) -> bool:
    """The one write by which a wait gets its outcome and its event; false: somebody else wrote since."""
    outbox = [*wait.outbox, event]
    try:
        await waits.replace(outcome, wait.revision, outbox=outbox)
    except RevisionConflict:
        return False
    except NatsUnavailable as failure:
        found = await look_again(waits.get_from_leader(outcome.wait_id), failure)
        if found is None or found.record != outcome:
            raise
    await publish_now(events, outbox)
    return True


async def publish_left_over(waits: WaitStore, events: WaitEvents, wait_id: str) -> None:
    """Publish what is in the outbox and not in the stream, then empty the outbox."""
    while (stored := await waits.get_from_leader(wait_id)) is not None and stored.outbox:
        for event in stored.outbox:
            if not await events.has(event):
                await events.publish(event)
        try:
            await waits.replace(stored.record, stored.revision)
        except RevisionConflict:
            log.debug("a wait was written while its events were published", extra={"wait_id": wait_id})
