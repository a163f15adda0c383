"""The decisions of a schedule: drawn by a seed, or given.

Each kind of decision has a sequence of its own, so that leaving out one fault does not change the delays of
all messages. 0 is always the ordinary choice: no fault, the usual delay, the first in the queue. A schedule
is therefore shorter the more of its decisions are 0: `failures/shrink.py` sets as many as possible to 0.
"""

from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from random import Random

Decisions = Mapping[str, Sequence[int]]


class Choices:
    def __init__(self, seed: int, given: Decisions | None = None) -> None:
        """With `given`, nothing is drawn: these decisions are made, and 0 after the last of a kind."""
        self.seed = seed
        self._given = given
        self._draws: dict[str, Callable[[], float]] = {}
        self.made: dict[str, list[int]] = {}

    def below(self, kind: str, count: int) -> int:
        """One of the numbers below `count`, all equally likely."""
        return self._next(kind, count, None)

    def weighted(self, kind: str, weights: "Weights") -> int:
        """One of the numbers below the count of weights."""
        if self._given is None and kind in self.made:
            # As `_next` does it: each message has several of these.
            sums = weights.sums
            choice = bisect(sums, self._draws[kind]() * sums[-1])
            self.made[kind].append(choice)
            return choice
        return self._next(kind, weights.count, weights.sums)

    def random(self, kind: str) -> Random:
        """For what is not part of the schedule: ids, secrets, jitter."""
        return Random(f"{self.seed}.{kind}")

    def _next(self, kind: str, count: int, sums: Sequence[float] | None) -> int:
        made = self.made.get(kind)
        if made is None:
            made = self.made[kind] = []
            self._draws[kind] = self.random(kind).random
        if self._given is None:
            drawn = self._draws[kind]()
            choice = int(drawn * count) if sums is None else bisect(sums, drawn * sums[-1])
        else:
            given = self._given.get(kind, ())
            choice = min(given[len(made)], count - 1) if len(made) < len(given) else 0
        made.append(choice)
        return choice


class Weights:
    """How likely each of some choices is."""

    def __init__(self, *weights: float) -> None:
        self.sums = list(accumulate(weights))
        self.count = len(weights)
