"""Up to where runs and journals are trusted although they are not signed: from before the first signature.

The sequences of both streams, beside the secret, where workers can neither read nor write.
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
    # When both streams were created: others of these names would count from 1.
    created: tuple[str, str] = ("", "")


_decode = msgspec.json.Decoder(TrustedRecords).decode


async def trusted_records(connection: Connection) -> TrustedRecords | None:
    """None while the runs of an earlier version are not signed yet: then all are trusted."""
    stored = await _bucket(connection).get_from_leader(_KEY)
    if stored is None:
        return None
    trusted = _decode(stored.value)
    present = await present_records(connection)
    return trusted if trusted.created == present.created else TrustedRecords(created=present.created)


async def is_decided(connection: Connection) -> bool:
    """Whether there is an answer to `trusted_records`."""
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
    """Decided once, by the first caller."""
    with suppress(RevisionConflict):
        await _bucket(connection).create(_KEY, msgspec.json.encode(records))


async def decide_if_empty(connection: Connection) -> None:
    """In a new installation there is nothing to trust, from the first moment on."""
    if not await is_decided(connection):
        present = await present_records(connection)
        if not present.runs:
            await trust_records(connection, present)


async def trust_again(connection: Connection) -> None:
    """Forget what was trusted: the next sweep signs what is stored by then."""
    bucket = _bucket(connection)
    stored = await bucket.get_from_leader(_KEY)
    if stored is not None:
        await bucket.delete(_KEY, revision=stored.revision)


def _bucket(connection: Connection) -> Bucket:
    return Bucket(connection, connection.config.lease_kv_bucket)
