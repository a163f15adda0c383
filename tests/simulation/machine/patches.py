"""Replaces what a process gets from the operating system: time and random numbers.

Only while a world runs, and only for its thread: other threads of the interpreter (tests have gateways in
some) get the real ones, and draw nothing from the numbers of the seed. What does not follow from the seed is
refused: real threads, processes and sleeps, and the time that the processor has worked.
"""

import os
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any, Final

from tests.simulation.choices import Choices
from tests.simulation.loop import SimulationLoop

# When a world begins, in unix seconds: 2030-01-01.
EPOCH: Final = 1_893_456_000.0
# The functions of the `random` module: methods of one generator.
_RANDOM_FUNCTIONS: Final = [
    name for name in random.__all__ if getattr(getattr(random, name), "__self__", None) is random._inst
]
_REFUSED: Final = (
    (threading.Thread, "start"),
    (os, "fork"),
    (os, "times"),
    (time, "clock_gettime"),
    (time, "clock_gettime_ns"),
    (time, "process_time"),
    (time, "process_time_ns"),
    (time, "sleep"),
    (time, "thread_time"),
    (time, "thread_time_ns"),
    (uuid, "uuid1"),
)


class NotOfTheSeed(AssertionError):
    """A world has called what gives another result each time."""


@contextmanager
def patched_interpreter(
    loop: SimulationLoop, choices: Choices, replaced_names: Iterable[tuple[Any, str, Any]]
) -> Iterator[None]:
    """`replaced_names` are further ones: a module, a name, and what is used instead."""
    ids = choices.random("ids").randbytes
    # Of the code: jitter, shuffled keys.
    numbers = random.Random(choices.seed)

    def wall() -> float:
        return EPOCH + loop.now + loop.running.wall_offset

    def monotonic() -> float:
        return loop.now + loop.running.monotonic_offset

    replaced: list[tuple[Any, str, Any]] = [
        (time, "time", wall),
        (time, "time_ns", lambda: int(wall() * 1e9)),
        (time, "monotonic", monotonic),
        (time, "monotonic_ns", lambda: int(monotonic() * 1e9)),
        (time, "perf_counter", monotonic),
        (time, "perf_counter_ns", lambda: int(monotonic() * 1e9)),
        (os, "urandom", ids),
        (random, "_urandom", ids),
        *((random, name, getattr(numbers, name)) for name in _RANDOM_FUNCTIONS),
        *((owner, name, _refusal(loop, owner, name)) for owner, name in _REFUSED),
        *replaced_names,
    ]
    originals = [(owner, name, getattr(owner, name)) for owner, name, _ in replaced]
    try:
        for (owner, name, value), (_, _, real) in zip(replaced, originals, strict=True):
            setattr(owner, name, _in_this_thread(value, real) if callable(value) else value)
        yield
    finally:
        for owner, name, value in originals:
            setattr(owner, name, value)


def _in_this_thread(simulated: Callable[..., Any], real: Callable[..., Any]) -> Callable[..., Any]:
    this_thread = get_ident()

    def call(*args: Any, **options: Any) -> Any:
        return simulated(*args, **options) if get_ident() == this_thread else real(*args, **options)

    return call


def _refusal(loop: SimulationLoop, owner: Any, name: str) -> Callable[..., Any]:
    def refuse(*_: object, **__: object) -> None:
        error = NotOfTheSeed(f"{owner.__name__}.{name} was called in a world")
        # Also noted: the code may catch it.
        loop.call_exception_handler({"message": "a real source was used", "exception": error})
        raise error

    return refuse
