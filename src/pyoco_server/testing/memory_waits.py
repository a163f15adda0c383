"""The waits of one run in memory, in place of the bucket of NATS."""

from collections.abc import Sequence

from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.stores.waits.wait_event_log import WaitEventLog
from pyoco_server.broker.stores.waits.wait_store import StoredWait, WaitStore
from pyoco_server.records.waits.wait_models import WaitEvent, WaitRecord
from pyoco_server.testing.scripted_answers import ScriptedAnswers
from pyoco_server.testing.scripted_arrivals import ScriptedArrivals


class MemoryWaits(WaitStore):
    """A wait is decided by the script in the moment in which it is created."""

    def __init__(self, script: ScriptedAnswers, arrivals: ScriptedArrivals) -> None:
        self._script = script
        self._arrivals = arrivals
        self._stored: dict[str, StoredWait] = {}

    async def get_from_leader(self, wait_id: str) -> StoredWait | None:
        return self._stored.get(wait_id)

    async def get(self, wait_id: str) -> StoredWait | None:
        return self._stored.get(wait_id)

    async def of_run_from_leader(self, run_id: str) -> list[StoredWait]:
        return list(self._stored.values())

    async def create(self, record: WaitRecord, *, outbox: Sequence[WaitEvent] = ()) -> int:
        if record.wait_id in self._stored:
            raise RevisionConflict
        script = self._script if record.is_human else self._arrivals
        return await self.replace(script.decided(record), 0, outbox=outbox)

    async def replace(self, record: WaitRecord, revision: int, *, outbox: Sequence[WaitEvent] = ()) -> int:
        self._stored[record.wait_id] = StoredWait(record, revision + 1, tuple(outbox))
        return revision + 1


class NoWaitEvents(WaitEventLog):
    """A test has no history of its waits, and nobody is notified."""

    def __init__(self) -> None: ...

    async def publish(self, event: WaitEvent) -> None: ...

    async def has(self, event: WaitEvent) -> bool:
        return True
