"""How much of its `timeout_sec` a run has used: the time since its first start, without its waits.

The owner counts by its monotonic clock and stores the sum with each write. Between two owners the server's
clock counts, in the sweep the gateway's: clocks of different machines are not compared.
"""

from msgspec import UNSET

from pyoco_server.records.models import RunSnapshot


def time_used(snapshot: RunSnapshot) -> float:
    """In seconds, up to the last write."""
    if snapshot.used_sec is not UNSET:
        return snapshot.used_sec
    return time_used_by_heartbeat(snapshot.start_time, snapshot.heartbeat_at, snapshot.waited_sec or 0.0)


def time_used_by_heartbeat(start_time: float | None, heartbeat_at: float, waited_sec: float) -> float:
    """The same for an owner of an older version, which does not store it."""
    return 0.0 if start_time is None else max(0.0, heartbeat_at - start_time - waited_sec)
