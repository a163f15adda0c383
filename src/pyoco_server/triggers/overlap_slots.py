"""One open run at a time: the slot of a hook or a template that forbids overlapping runs.

A slot names the run that has it. It is taken by a compare-and-set before the run is stored, so that two
deliveries at the same moment do not both start one; and it is free again when its run has ended.
"""

from contextlib import suppress
from typing import Final

import msgspec
from msgspec import Struct

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.kv import Bucket
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.jetstream.stream_reads import unix_time
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.errors import UnreadableRecord
from pyoco_server.records.ids import NO_TENANT
from pyoco_server.records.value_types import RunId
from pyoco_server.records.waits.signal_models import digest_token

# Between the slot and its run are two writes. A gateway that dies there leaves a slot without a run.
_START_SEC: Final = 30.0
# Of those who want the same slot at the same moment, one gets it in each round.
_TRIES: Final = 20


class _Slot(Struct):
    run_id: RunId


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Slot).decode


class OverlapSlots:
    """Keys `o.<tenant>.<owner>` of the bucket `pyoco_receipts`, which no gateway follows."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._bucket = Bucket(connection, connection.config.receipts_kv_bucket)
        self._runs = RunStore(connection)

    async def take(self, tenant_id: str | None, owner: str, run_id: str, *, now: float) -> str | None:
        """Take the slot for this run; the id of the open run that has it, if there is one.

        Taking it again for the same run changes nothing. `now` is by the server's clock.
        """
        key = _key(tenant_id, owner)
        value = _encode(_Slot(run_id))
        for _ in range(_TRIES):
            entry = await self._bucket.get_from_leader(key)
            if entry is not None:
                holder = _decode(entry.value).run_id
                if holder == run_id:
                    return None
                if await self._is_open(holder, now - unix_time(entry.timestamp)):
                    return holder
            try:
                await self._bucket.update(key, value, revision=entry.revision if entry else 0)
            except RevisionConflict:
                continue
            return None
        raise self._connection.unavailable("many deliveries want to start a run at this moment")

    async def pass_on(self, tenant_id: str | None, owner: str, run_id: str, to: str) -> None:
        """Give the slot of this run to the run `to`, which was started in its place.

        The key of its delivery had expired, so that the run has another id.
        """
        key = _key(tenant_id, owner)
        entry = await self._bucket.get_from_leader(key)
        if entry is None or _decode(entry.value).run_id != run_id:
            return
        # RevisionConflict: somebody else has done it, for the same delivery.
        with suppress(RevisionConflict):
            await self._bucket.update(key, _encode(_Slot(to)), revision=entry.revision)

    async def _is_open(self, run_id: str, taken_sec_ago: float) -> bool:
        try:
            stored = await self._runs.get_from_leader(run_id)
        except UnreadableRecord:
            # It never ends, and would hold the slot for good.
            return False
        if stored is not None:
            return not stored.snapshot.status.terminal
        # It was deleted after its end; or it is about to be stored.
        return taken_sec_ago < _START_SEC and await self._runs.marker(run_id) is None


def _key(tenant_id: str | None, owner: str) -> str:
    return f"o.{tenant_id or NO_TENANT}.{digest_token(owner)}"
