"""Checks all invariants of a schedule.

`check_run_write` (run_invariants.py) sees each stored write of a run; the others see the evidence at the end,
when faults have stopped and everything has had time to settle. Each yields a sentence for what is broken.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.simulation.invariants import (
    request_invariants,
    run_invariants,
    trigger_invariants,
    wait_invariants,
)
from tests.simulation.invariants.evidence import Evidence, Invariant

ALL: Final[tuple[Invariant, ...]] = (
    *run_invariants.ALL,
    *request_invariants.ALL,
    *wait_invariants.ALL,
    *trigger_invariants.ALL,
)


class InvariantBroken(AssertionError):
    """An invariant does not hold; the text says which, and of what."""


def check_loop_errors(errors: Sequence[Mapping[str, Any]]) -> None:
    """No callback or task of a program fails unnoticed."""
    for each in errors:
        raise InvariantBroken(f"{each['message']}: {each.get('exception')!r}")


def check(evidence: Evidence) -> None:
    """Raise for the first that does not hold."""
    for invariant in ALL:
        for problem in invariant(evidence):
            raise InvariantBroken(f"{invariant.__name__.replace('_', ' ')}: {problem}")
