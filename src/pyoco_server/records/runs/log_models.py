"""The log of a run: the lines that its tasks printed."""

from msgspec import Struct

from pyoco_server.records.moments import Timestamp
from pyoco_server.records.value_types import Count, StoredName


class LogLine(Struct, kw_only=True, omit_defaults=True):
    """One line that a run printed, or a note about lines that were dropped."""

    ts: Timestamp
    # stdout, stderr, or note (about missing lines).
    stream: StoredName
    text: str
    # None when one of several tasks may have printed it.
    task: str | None = None
    attempt: Count = 1
