"""CI plays some schedules of each scenario: the first seeds, and those that once found a defect."""

import gc
import logging
from collections.abc import Iterator

import pytest

from tests.simulation.found_seeds import FOUND
from tests.simulation.schedule import SCENARIOS, run_schedule
from tests.simulation.shrink import shrink

_SEEDS = range(1, 9)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """No log lines of outages, and no garbage collection: tasks of crashed processes would be closed."""
    logging.disable(logging.CRITICAL)
    gc.disable()
    yield
    gc.enable()
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_invariants_hold_in_every_schedule(name: str) -> None:
    scenario = SCENARIOS[name]
    for seed in (*_SEEDS, *FOUND.get(name, ())):
        result = run_schedule(scenario, seed)
        if result.failure is not None:
            shortest = shrink(scenario, result, most=100).result
            pytest.fail(f"{name}, seed {seed}: {result.failure}\n\n{shortest.story}\n\n{shortest.failure}")
