"""The order of tests in several processes: long modules first in each, so that none is left at the end.

xdist gives each process one part of the list, and an idle process takes from the end of another's part.
"""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Final, TypeVar

T = TypeVar("T")

# They mostly wait: for processes that are killed, and for what happens after a timeout.
LONG: Final = (
    "tests/faults/",
    "tests/attacks/test_unreadable_records.py",
    "tests/cli/test_dev.py",
    "tests/contract/test_openapi_conformance.py",
    "tests/integration/executors/test_executor_handle_timers.py",
    "tests/integration/gateway/test_disk_full.py",
    "tests/integration/gateway/test_outage.py",
    "tests/integration/wheels/test_wheel_",
)


def module_of(node_id: str) -> str:
    return node_id.partition("::")[0]


def spread(items: Sequence[T], processes: int, module: Callable[[T], str]) -> list[T]:
    """The same items: each process begins with its share of the long modules, which stay whole."""
    modules = [(name, list(group)) for name, group in groupby(items, module)]
    long = [group for name, group in modules if name.startswith(LONG)]
    others = [item for name, group in modules if not name.startswith(LONG) for item in group]
    shares: list[list[T]] = [[] for _ in range(processes)]
    for group in sorted(long, key=len, reverse=True):
        min(shares, key=len).extend(group)
    spread: list[T] = []
    for share in shares:
        # The parts of the list are equally long.
        room = len(items) // processes - len(share)
        spread += share + others[:room]
        others = others[room:]
    return spread + others
