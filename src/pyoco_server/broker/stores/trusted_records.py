"""Which unsigned runs and journal entries are trusted: those that were stored before the first signature.

The last trusted sequence of each stream is stored beside the secret, where workers neither read nor write.
"""

from contextlib import suppress
from typing import Final

import msgspec

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.kv import Bucket
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.jetstream.stream_reads import stream_state

_KEY: Final = "trusted_records"


class TrustedRecords(msgspec.Struct, frozen=True, omit_defaults=True):
    # The last revision of the runs bucket, and the last sequence of the journal, that are trusted.
    runs: int = 0
    journal: int = 0
    # When both streams were created: a stream that is created again counts from 1.
    created: tuple[str, str] = ("", "")


_decode = msgspec.json.Decoder(TrustedRecords).decode


async def trusted_records(connection: Connection) -> TrustedRecords | None:
    """What is trusted; None while the runs of an earlier version are not signed yet: then all are."""
    stored = await _bucket(connection).get_from_leader(_KEY)
    if stored is None:
        return None
    trusted = _decode(stored.value)
    present = await present_records(connection)
    return trusted if trusted.created == present.created else TrustedRecords(created=present.created)


async def is_trust_decided(connection: Connection) -> bool:
    """Whether the last trusted sequences are stored."""
    return await _bucket(connection).get_from_leader(_KEY) is not None


async def present_records(connection: Connection) -> TrustedRecords:
    """All that is stored now."""
    config = connection.config
    runs = await stream_state(connection, f"KV_{config.runs_kv_bucket}")
    journal = await stream_state(connection, config.journal_stream)
    return TrustedRecords(
        runs=runs.last_sequence, journal=journal.last_sequence, created=(runs.created, journal.created)
    )


async def trust_records(connection: Connection, records: TrustedRecords) -> None:
    """Store the last trusted sequences; a later call changes nothing."""
    with suppress(RevisionConflict):
        await _bucket(connection).create(_KEY, msgspec.json.encode(records))


async def trust_nothing_if_empty(connection: Connection) -> None:
    """In a new installation no unsigned record is trusted, from the first moment on."""
    if not await is_trust_decided(connection):
        present = await present_records(connection)
        if not present.runs:
            await trust_records(connection, present)


async def forget_trusted_records(connection: Connection) -> None:
    """Delete the last trusted sequences: the next sweep signs the runs that are stored by then."""
    bucket = _bucket(connection)
    stored = await bucket.get_from_leader(_KEY)
    if stored is not None:
        await bucket.delete(_KEY, revision=stored.revision)


def _bucket(connection: Connection) -> Bucket:
    return Bucket(connection, connection.config.lease_kv_bucket)
