"""Up to where runs and journals are trusted although they are not signed: from before the first signature.

The sequences of both streams, beside the secret, where workers can neither read nor write.
"""

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


_decode = msgspec.json.Decoder(TrustedRecords).decode


async def trusted_records(connection: Connection) -> TrustedRecords | None:
    """None while the runs of an earlier version are not signed yet: then all are trusted."""
    stored = await Bucket(connection, connection.config.lease_kv_bucket).get_from_leader(_KEY)
    return None if stored is None else _decode(stored.value)


async def present_records(connection: Connection) -> TrustedRecords:
    """What there is now."""
    config = connection.config
    runs = await stream_state(connection, f"KV_{config.runs_kv_bucket}")
    journal = await stream_state(connection, config.journal_stream)
    return TrustedRecords(runs=runs.last_sequence, journal=journal.last_sequence)


async def trust_records(connection: Connection, records: TrustedRecords) -> None:
    """Decided once, by the first caller."""
    bucket = Bucket(connection, connection.config.lease_kv_bucket)
    try:
        await bucket.create(_KEY, msgspec.json.encode(records))
    except RevisionConflict:
        return


async def trust_again(connection: Connection) -> None:
    """Forget what was trusted, so that the next sweep signs what is stored by then."""
    bucket = Bucket(connection, connection.config.lease_kv_bucket)
    stored = await bucket.get_from_leader(_KEY)
    if stored is not None:
        await bucket.delete(_KEY, revision=stored.revision)
