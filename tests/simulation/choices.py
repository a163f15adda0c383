"""The decisions of a schedule: drawn by a seed, or given.

Each kind of decision has a sequence of its own, so that leaving out one fault does not change the delays of
all messages. 0 is always the ordinary choice: no fault, the usual delay, the first in the queue. A schedule
is therefore shorter the more of its decisions are 0, and `shrink.py` sets them to 0 one after the other.
"""

from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from random import Random

Decisions = Mapping[str, Sequence[int]]
Draw = Callable[[Random], int]


class Choices:
    def __init__(self, seed: int, given: Decisions | None = None) -> None:
        """With `given`, nothing is drawn: these decisions are made, and 0 after the last of a kind."""
        self.seed = seed
        self._given = given
        self._randoms: dict[str, Random] = {}
        self.made: dict[str, list[int]] = {}

    def below(self, kind: str, count: int) -> int:
        """One of the numbers below `count`, all equally likely."""
        return self._next(kind, count, lambda random: random.randrange(count))

    def weighted(self, kind: str, weights: "Weights") -> int:
        """One of the numbers below the count of weights."""
        return self._next(kind, weights.count, lambda random: weights.index(random.random()))

    def chance(self, kind: str, probability: float) -> bool:
        """Whether something rare happens."""
        return self._next(kind, 2, lambda random: int(random.random() < probability)) == 1

    def random(self, kind: str) -> Random:
        """For what is not part of the schedule: ids, secrets, jitter."""
        found = self._randoms.get(kind)
        if found is None:
            found = self._randoms[kind] = Random(f"{self.seed}.{kind}")
        return found

    def _next(self, kind: str, count: int, draw: Draw) -> int:
        made = self.made.get(kind)
        if made is None:
            made = self.made[kind] = []
        if self._given is None:
            choice = draw(self.random(kind))
        else:
            given = self._given.get(kind, ())
            choice = min(given[len(made)], count - 1) if len(made) < len(given) else 0
        made.append(choice)
        return choice


class Weights:
    """How likely each of some choices is."""

    def __init__(self, *weights: float) -> None:
        self._sums = list(accumulate(weights))
        self.count = len(weights)

    def index(self, random: float) -> int:
        return min(bisect(self._sums, random * self._sums[-1]), self.count - 1)
