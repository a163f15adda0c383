"""How much of its `timeout_sec` a run has used: elapsed time from its first start, without waits for people.

Its owner counts by its own monotonic clock, and stores the sum with each write. Between two owners the
server's clock counts, and in the sweep the gateway's own: clocks of different machines are not compared.
"""

from msgspec import UNSET

from pyoco_server.records.models import RunSnapshot


def time_used(snapshot: RunSnapshot) -> float:
    """In seconds, up to the last write."""
    if snapshot.used_sec is not UNSET:
        return snapshot.used_sec
    return time_used_by_heartbeat(snapshot.start_time, snapshot.heartbeat_at, snapshot.waited_sec or 0.0)


def time_used_by_heartbeat(start_time: float | None, heartbeat_at: float, waited_sec: float) -> float:
    """The same for a run whose owner is of a version that does not store it."""
    return 0.0 if start_time is None else max(0.0, heartbeat_at - start_time - waited_sec)
