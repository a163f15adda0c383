"""The journal of a run: the results of its finished tasks, with which they need not be executed again."""

from hashlib import blake2b

from msgspec import Struct, structs

from pyoco_server.records.moments import Timestamp
from pyoco_server.records.value_types import Count


class JournalEntry(Struct, kw_only=True, omit_defaults=True):
    """The result of one finished task, or of one step of it, with which it need not be executed again.

    One message of `<journal prefix>.<tag>.<run_id>`. Only executors decode the values.
    """

    # `task|loop path|occurrence`, and for a step of it also `|step|occurrence`.
    key: str
    task: str
    # The attempt that wrote it; of two entries with one key the later attempt's is valid. 0: copied from the
    # run that this one repeats.
    attempt: Count
    started_at: Timestamp
    ended_at: Timestamp
    # Empty, without an error: the result is not stored or not valid, and the task is executed again.
    output: bytes = b""
    # Changes of the flow's scratch, params and variables.
    changes: bytes = b""
    # Of a task that failed while its flow continues without it.
    error: str | None = None
    # Its position among the run's entries, counted by the executors from 1 without a gap over all attempts.
    # 0: written by a version that did not count.
    number: Count = 0
    # The number of the last entry that its attempt began with; the attempt counts on from there.
    base: Count = 0
    # Executed again, with the same result as the entry of this number: what depends on that one is valid.
    same_as: Count = 0
    # Of the task and everything before it in its flow; empty where that is unknown.
    shape: bytes = b""
    # Of a result that is not stored: to compare it with the next one, and why it is not stored.
    digest: bytes = b""
    why: str = ""

    @property
    def place(self) -> int:
        """Its position in the order of computation."""
        return self.same_as or self.number

    @property
    def has_value(self) -> bool:
        return bool(self.output) or self.error is not None

    def without_value(self, why: str, digest: bytes = b"") -> "JournalEntry":
        """The same position for a result that is not stored, or not valid any more."""
        return structs.replace(self, output=b"", changes=b"", error=None, digest=digest, why=why)


def value_digest(output: bytes, changes: bytes) -> bytes:
    return blake2b(output + changes, digest_size=16).digest()
