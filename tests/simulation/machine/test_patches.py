"""Nothing but the seed decides a story: not other threads, nor a real clock."""

import _thread
import datetime
import posix
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from types import BuiltinFunctionType, FrameType
from typing import Any, Final
from uuid import uuid4

import pytest

from tests.simulation.machine.patches import EPOCH
from tests.simulation.schedule import SCENARIOS, Scenario, run_schedule
from tests.simulation.users import Users
from tests.simulation.world import Shape

pytestmark = pytest.mark.usefixtures("quiet")

_CLOCKS: Final = ("time", "monotonic", "perf_counter", "process_time", "thread_time", "clock_gettime")
# What gives another result each time.
_REAL: Final[dict[Any, str]] = {
    **{getattr(time, name): name for clock in _CLOCKS for name in (clock, f"{clock}_ns")},
    time.sleep: "sleep",
    posix.urandom: "urandom",
    posix.getrandom: "getrandom",
    posix.times: "times",
    posix.fork: "fork",
    _thread.start_new_thread: "start_new_thread",
}
_DATES: Final = ("now", "today", "utcnow")


def test_other_threads_draw_nothing_of_the_seed_and_see_the_real_time() -> None:
    """As the gateway does that tests of commands have in a thread: it draws an id every half second."""
    times: list[float] = []

    def draw() -> None:
        times.append(time.time())
        uuid4()
        random.random()

    alone = run_schedule(SCENARIOS["answer"], 3)
    with _repeating(draw):
        beside = run_schedule(SCENARIOS["answer"], 3)
    assert beside.story == alone.story
    assert max(times) < EPOCH


@contextmanager
def _repeating(act: Callable[[], None]) -> Iterator[None]:
    """Repeat it in a thread, while the block lasts and at least once."""
    begun, over = threading.Event(), threading.Event()

    def repeat() -> None:
        for number in count():
            act()
            if number == 0:
                begun.set()
            if over.wait(0.0001):
                return

    thread = threading.Thread(target=repeat)
    thread.start()
    begun.wait()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_world_uses_no_real_clock_thread_or_random_number(name: str) -> None:
    used: set[str] = set()

    def note(frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and isinstance(called, BuiltinFunctionType) and (real := _real_name(called)):
            used.add(f"{real} in {frame.f_code.co_filename}:{frame.f_lineno}")

    sys.setprofile(note)
    try:
        run_schedule(SCENARIOS[name], 3)
    finally:
        sys.setprofile(None)
    assert not used


def _real_name(called: BuiltinFunctionType) -> str | None:
    if called.__self__ in (datetime.datetime, datetime.date):
        return called.__name__ if called.__name__ in _DATES else None
    try:
        return _REAL.get(called)
    except TypeError:
        # A method of something that has no hash.
        return None


@pytest.mark.parametrize(
    ("owner", "name", "argument"),
    [
        (threading.Thread, "start", threading.Thread()),
        (time, "sleep", 0),
        (time, "clock_gettime", time.CLOCK_MONOTONIC),
    ],
)
def test_world_refuses_what_does_not_follow_from_the_seed(owner: Any, name: str, argument: object) -> None:
    async def play(_: Users) -> None:
        try:
            getattr(owner, name)(argument)
        except AssertionError:
            # The code may catch it: the schedule fails nevertheless.
            return

    failure = run_schedule(Scenario("refused", Shape(faults=0), play), 1).failure
    assert failure == f"a real source was used: NotOfTheSeed('{owner.__name__}.{name} was called in a world')"
