"""The order of tests in several processes: long ones first in each, so that none is left at the end.

xdist gives each process one part of the list, and an idle process takes from the end of another's part.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

# They mostly wait: for processes that are killed, and for what happens after a timeout.
LONG: Final = (
    "tests/faults/",
    "tests/contract/test_openapi_conformance.py",
    "tests/integration/gateway/test_outage.py",
    "tests/integration/wheels/test_wheel_",
    "tests/cli/test_dev.py",
)
# Between two long tests of a process: while some wait, others compute.
_BETWEEN: Final = 10


def is_long(path: str) -> bool:
    return path.startswith(LONG)


def spread(items: Sequence[T], processes: int, is_long: Callable[[T], bool]) -> list[T]:
    """The same items: each process begins with its share of the long ones, among others."""
    long = [item for item in items if is_long(item)]
    others = [item for item in items if not is_long(item)]
    spread: list[T] = []
    for number in range(processes):
        own = long[number::processes]
        first, last = (len(others) * each // processes for each in (number, number + 1))
        share = others[first:last]
        for place, item in enumerate(own):
            spread += [item, *share[place * _BETWEEN : (place + 1) * _BETWEEN]]
        spread += share[len(own) * _BETWEEN :]
    return spread
