"""Finds the shortest schedule that still fails: as many decisions as possible become the ordinary ones."""

import re
from dataclasses import dataclass
from typing import Final

from tests.simulation.choices import Decisions
from tests.simulation.schedule import Result, Scenario, run_schedule

# Runs and other things that have random names or numbers in a text.
_NAMES: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}(\.[0-9a-f]{16})?|\d+(\.\d+)?")
# The order in which kinds are tried: the sooner, the more of the story a kind explains.
_KINDS: Final = ("delay", "store", "next", "replica")


@dataclass(frozen=True, slots=True)
class Shrunk:
    result: Result
    # How many schedules were tried, and how many decisions were not the ordinary ones before and after.
    tried: int
    before: int
    after: int


def shrink(scenario: Scenario, failed: Result, *, most: int = 300) -> Shrunk:
    """The shortest schedule that breaks the same invariant, found with at most so many tries."""
    return _Search(scenario, failed, most).run()


def same_failure(one: Result, other: Result) -> bool:
    return _kind_of(one) == _kind_of(other)


def _kind_of(result: Result) -> str | None:
    return None if result.failure is None else _NAMES.sub("#", result.failure)


class _Search:
    def __init__(self, scenario: Scenario, failed: Result, most: int) -> None:
        self._scenario = scenario
        self._failed = failed
        self._best = failed
        self._most = most
        self._tried = 0

    def run(self) -> Shrunk:
        before = _extraordinary(self._failed.decisions)
        # Without any of a kind.
        for kind in sorted(self._best.decisions, key=_rank):
            self._try(self._without(kind, 0, None))
        # Without some of a kind, and then without fewer of them.
        while self._pass():
            pass
        return Shrunk(self._best, self._tried, before, _extraordinary(self._best.decisions))

    def _pass(self) -> bool:
        """Whether it has become shorter."""
        before = _extraordinary(self._best.decisions)
        for kind in sorted(self._best.decisions, key=_rank):
            size = max(1, len(self._places(kind)) // 2)
            while size:
                self._without_chunks(kind, size)
                size //= 2
        return _extraordinary(self._best.decisions) < before and self._tried < self._most

    def _without_chunks(self, kind: str, size: int) -> None:
        start = 0
        while start < len(self._places(kind)) and self._tried < self._most:
            places = self._places(kind)[start : start + size]
            if not self._try(self._without(kind, places[0], places[-1] + 1)):
                start += size

    def _places(self, kind: str) -> list[int]:
        return [place for place, choice in enumerate(self._best.decisions.get(kind, ())) if choice]

    def _without(self, kind: str, first: int, end: int | None) -> Decisions:
        """With the ordinary choices in this range."""
        changed = dict(self._best.decisions)
        # A shorter schedule may end before the first decision of a kind.
        of_kind = list(changed.get(kind, ()))
        of_kind[first:end] = [0] * len(of_kind[first:end])
        changed[kind] = of_kind
        return changed

    def _try(self, decisions: Decisions) -> bool:
        if self._tried >= self._most or _extraordinary(decisions) >= _extraordinary(self._best.decisions):
            return False
        self._tried += 1
        result = run_schedule(self._scenario, self._failed.seed, given=decisions)
        shorter = _extraordinary(result.decisions) < _extraordinary(self._best.decisions)
        if same_failure(result, self._failed) and shorter:
            self._best = result
            return True
        return False


def _extraordinary(decisions: Decisions) -> int:
    return sum(1 for choices in decisions.values() for choice in choices if choice)


def _rank(kind: str) -> tuple[int, str]:
    return (_KINDS.index(kind) if kind in _KINDS else len(_KINDS), kind)
