"""Replaces what a process gets from the operating system: time and random numbers.

Only while a world runs, and for the whole interpreter: there is one world at a time.
"""

import os
import random
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from tests.simulation.choices import Choices
from tests.simulation.loop import SimulationLoop

# When a world begins, in unix seconds: 2030-01-01.
EPOCH: Final = 1_893_456_000.0


@contextmanager
def patched_interpreter(
    loop: SimulationLoop, choices: Choices, replaced_names: Iterable[tuple[Any, str, Any]]
) -> Iterator[None]:
    """`replaced_names` are further ones: a module, a name, and what is used instead."""
    numbers = choices.random("ids")
    # Of the code: jitter, shuffled keys.
    before = random.getstate()

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
        (os, "urandom", numbers.randbytes),
        (random, "_urandom", numbers.randbytes),
        *replaced_names,
    ]
    originals = [(owner, name, getattr(owner, name)) for owner, name, _ in replaced]
    random.seed(choices.seed)
    try:
        for owner, name, value in replaced:
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in originals:
            setattr(owner, name, value)
        random.setstate(before)
