"""When something is due next, of many keys: a heap whose outdated entries are skipped."""

import heapq
from typing import Final

# Outdated entries beyond as many as there are keys: few are not worth a new heap.
_MAX_OUTDATED: Final = 1000


class DueTimes:
    """One time for each key."""

    def __init__(self) -> None:
        self._times: dict[str, float] = {}
        # The earliest first; an entry that is not in `_times` is outdated.
        self._heap: list[tuple[float, str]] = []

    def __contains__(self, key: str) -> bool:
        return key in self._times

    def time_of(self, key: str) -> float | None:
        return self._times.get(key)

    def schedule(self, key: str, at: float) -> None:
        """It is due then, and not at an earlier given time."""
        if self._times.get(key) == at:
            return
        self._times[key] = at
        heapq.heappush(self._heap, (at, key))
        if len(self._heap) > _MAX_OUTDATED + 2 * len(self._times):
            self._heap = [(at, key) for key, at in self._times.items()]
            heapq.heapify(self._heap)

    def discard(self, key: str) -> None:
        self._times.pop(key, None)

    def take_due(self, now: float, limit: int) -> list[str]:
        """Remove and return the keys that are due, the earliest first."""
        due: list[str] = []
        while len(due) < limit and (at := self.next_at()) is not None and at <= now:
            _, key = heapq.heappop(self._heap)
            del self._times[key]
            due.append(key)
        return due

    def next_at(self) -> float | None:
        """When the first is due; None: there are no keys."""
        while self._heap:
            at, key = self._heap[0]
            if self._times.get(key) == at:
                return at
            heapq.heappop(self._heap)
        return None
