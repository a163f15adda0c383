"""Signs the open runs of an earlier version, once, and decides which unsigned runs are trusted from then on.

Their workers keep the signature. Runs that have ended are not written: they are trusted up to the revision at
which this was done. Results in the journal of an earlier version move to the subject of the tag.
"""

import asyncio
import logging
from typing import Final

from msgspec import UNSET, structs

from pyoco_server.broker.client.connection import Connection, PayloadTooLarge
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.stores.runs.journal_store import Journal
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.broker.stores.trusted_records import is_trust_decided, present_records, trust_records
from pyoco_server.errors import UnreadableRecord
from pyoco_server.records.value_types import is_tag
from pyoco_server.runs.lifecycle.job_signatures import signatures_of
from pyoco_server.runs.open_runs import OpenRun, OpenRuns

log = logging.getLogger(__name__)

_AT_ONCE: Final = 64
# A worker may write the run at the same time; one that keeps writing must not block the sweep.
_TRIES: Final = 10


class UnsignedRuns:
    def __init__(self, connection: Connection, runs: OpenRuns) -> None:
        self._connection = connection
        self._runs = runs
        self._store = RunStore(connection)
        self._journal = Journal(connection)
        self._signatures = signatures_of(connection)

    async def sign(self) -> None:
        """Sign them, unless a gateway has done so before."""
        if await is_trust_decided(self._connection):
            return
        before = await present_records(self._connection)
        signed = 0
        async for group in self._runs.groups():
            for start in range(0, len(group), _AT_ONCE):
                some = group[start : start + _AT_ONCE]
                signed += sum(await asyncio.gather(*(self._sign(run, before.journal) for run in some)))
        # Read again: runs that ended meanwhile have a later revision.
        now = await present_records(self._connection)
        await trust_records(self._connection, structs.replace(now, journal=before.journal))
        if signed:
            log.info("signed %d open runs of an earlier version", signed)

    async def _sign(self, run: OpenRun, journal_up_to: int) -> bool:
        for _ in range(_TRIES):
            try:
                stored = await self._store.get_from_leader(run.run_id)
                if stored is None or stored.snapshot.status.terminal:
                    return False
                snapshot = stored.snapshot
                if await self._signatures.is_signed(snapshot) or not is_tag(snapshot.tag):
                    return False
                if snapshot.signature is UNSET:
                    await self._journal.adopt_old(snapshot.tag, run.run_id, journal_up_to)
                signature = await self._signatures.sign(snapshot)
                await self._store.replace(
                    structs.replace(snapshot, signature=signature), revision=stored.revision
                )
            except RevisionConflict:
                continue
            except (UnreadableRecord, PayloadTooLarge) as error:
                log.error("a run cannot be signed: %s", error, extra={"run_id": run.run_id})
                return False
            return True
        log.warning("a run was not signed: it kept changing", extra={"run_id": run.run_id})
        return False
