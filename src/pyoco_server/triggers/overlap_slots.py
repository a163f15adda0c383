"""One open run at a time: the slot of a hook or a template that forbids overlapping runs.

A slot names the run that has it. It is taken by a compare-and-set before the run is stored, so that two
deliveries at the same moment do not both start one; and it is free again when its run has ended. Whether a
run that is not stored yet will be is not known: nothing is skipped because of it.

The overlap policy of schedules: schedules/schedule_decider.py.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from enum import Enum, auto
from typing import Final

import msgspec
from msgspec import Struct

from pyoco_server.broker.client.connection import Connection, PayloadTooLarge
from pyoco_server.broker.jetstream.kv import Bucket
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.jetstream.stream_reads import unix_time
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.errors import NatsUnavailable, PyocoError, UnreadableRecord
from pyoco_server.records.ids import NO_TENANT
from pyoco_server.records.value_types import RunId
from pyoco_server.records.waits.signal_models import digest_token

# Between the slot and its run are two writes. A gateway that dies there leaves a slot without a run.
_START_SEC: Final = 30.0
# Of those who want the same slot at the same moment, one gets it in each round.
_MAX_CONFLICTS: Final = 20
# How often, and with which pauses, a delivery looks whether the run of another one is stored: for 3 s.
MAX_LOOKS: Final = 60
_LOOK_EVERY_SEC: Final = 0.05


class _Slot(Struct):
    # None: its delivery could not start a run.
    run_id: RunId | None


class _Holder(Enum):
    OPEN = auto()
    # It is not stored: it is about to be, or its gateway has failed.
    STARTING = auto()
    ENDED = auto()


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

        Taking it again for the same run changes nothing. NatsUnavailable while it is not known whether there
        is an open run. `now` is by the server's clock.
        """
        key = _key(tenant_id, owner)
        value = _encode(_Slot(run_id))
        conflicts = looks = 0
        while conflicts < _MAX_CONFLICTS and looks < MAX_LOOKS:
            entry = await self._bucket.get_from_leader(key)
            if entry is not None:
                holder = _holder(entry.value)
                if holder == run_id:
                    return None
                state = await self._state_of(holder, now - unix_time(entry.timestamp))
                if state is _Holder.OPEN:
                    return holder
                if state is _Holder.STARTING:
                    looks += 1
                    await asyncio.sleep(_LOOK_EVERY_SEC)
                    continue
            try:
                await self._bucket.update(key, value, revision=entry.revision if entry else 0)
            except RevisionConflict:
                conflicts += 1
                continue
            return None
        raise self._connection.unavailable("another delivery is starting a run; send it again")

    @asynccontextmanager
    async def freed_if_refused(self, tenant_id: str | None, owner: str, run_id: str) -> AsyncIterator[None]:
        """Free the slot if the run is refused. Its id must be that of no other delivery.

        After NatsUnavailable the run may have been stored, and keeps the slot.
        """
        try:
            yield
        except PyocoError as error:
            if not isinstance(error, NatsUnavailable) or isinstance(error, PayloadTooLarge):
                with suppress(NatsUnavailable):
                    await self._replace(tenant_id, owner, run_id, None)
            raise

    async def pass_on(self, tenant_id: str | None, owner: str, run_id: str, to: str) -> None:
        """Give the slot of this run to the run `to`, which was started in its place.

        The key of its delivery had expired, so that the run has another id.
        """
        await self._replace(tenant_id, owner, run_id, to)

    async def _replace(self, tenant_id: str | None, owner: str, run_id: str, to: str | None) -> None:
        key = _key(tenant_id, owner)
        entry = await self._bucket.get_from_leader(key)
        if entry is None or _holder(entry.value) != run_id:
            return
        # RevisionConflict: somebody else has done it, for the same delivery.
        with suppress(RevisionConflict):
            await self._bucket.update(key, _encode(_Slot(to)), revision=entry.revision)

    async def _state_of(self, run_id: str | None, taken_sec_ago: float) -> _Holder:
        if run_id is None:
            return _Holder.ENDED
        try:
            stored = await self._runs.get_from_leader(run_id)
        except UnreadableRecord:
            # It never ends, and would hold the slot for good.
            return _Holder.ENDED
        if stored is not None:
            return _Holder.ENDED if stored.snapshot.status.terminal else _Holder.OPEN
        if taken_sec_ago < _START_SEC and await self._runs.marker(run_id) is None:
            return _Holder.STARTING
        # It was deleted after its end, or never stored.
        return _Holder.ENDED


def _holder(value: bytes) -> str | None:
    try:
        return _decode(value).run_id
    except msgspec.DecodeError:
        # A record that cannot be read must not hold the slot for good.
        return None


def _key(tenant_id: str | None, owner: str) -> str:
    return f"o.{tenant_id or NO_TENANT}.{digest_token(owner)}"
