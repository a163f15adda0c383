"""Stored signals of runs: every write is a compare-and-set on the mailbox of the run."""

from dataclasses import dataclass
from operator import attrgetter

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.kv import Bucket
from pyoco_server.broker.jetstream.record_reader import RecordReader
from pyoco_server.records.unreadable_records import RecordKind
from pyoco_server.records.waits.signal_models import Mailbox, decode_mailbox, encode


@dataclass(frozen=True, slots=True)
class StoredMailbox:
    mailbox: Mailbox
    # 0: it is not stored yet.
    revision: int


class MailboxStore:
    """The `pyoco_signals` bucket."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._bucket = Bucket(connection, connection.config.signals_kv_bucket)
        self._reader = RecordReader(
            connection, RecordKind.SIGNALS, decode_mailbox, key_of=attrgetter("run_id")
        )

    async def get(self, run_id: str) -> StoredMailbox:
        """As the leader knows it; an empty one if none is stored. UnreadableRecord if it cannot be read."""
        entry = await self._bucket.get_from_leader(run_id)
        if entry is None:
            return StoredMailbox(Mailbox(run_id=run_id), 0)
        return StoredMailbox(self._reader.read(run_id, entry), entry.revision)

    async def replace(self, mailbox: Mailbox, *, revision: int) -> int:
        """Replace exactly this revision; RevisionConflict if it was written since."""
        return await self._bucket.update(mailbox.run_id, encode(mailbox), revision=revision)

    async def remove_run(self, run_id: str) -> None:
        await jetstream_api.purge(self._connection, self._bucket.stream, f"{self._bucket.prefix}{run_id}")
