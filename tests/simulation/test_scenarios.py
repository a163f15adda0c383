"""Every scenario holds for some seeds; those that once failed hold; and reverted fixes are found."""

from typing import Final

import pytest

from tests.simulation.fixes import BY_NAME
from tests.simulation.found_seeds import FOUND
from tests.simulation.reverted_fixes import find
from tests.simulation.schedule import SCENARIOS, run_schedule

_SEEDS: Final = 3
# Found within seconds; `python -m tests.simulation.reverted_fixes` looks for all of them.
_QUICK: Final = (
    "log-ended-by-a-refused-write",
    "replay-503-although-done",
    "purged-run-stays-listed",
    "two-retries",
)


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_scenario_breaks_no_invariant(name: str) -> None:
    for seed in range(_SEEDS):
        result = run_schedule(SCENARIOS[name], seed)
        assert result.failure is None, f"seed {seed}: {result.failure}\n{result.story}"


@pytest.mark.parametrize(("name", "seed"), [(name, seed) for name, seeds in FOUND.items() for seed in seeds])
def test_schedule_that_once_failed_breaks_no_invariant(name: str, seed: int) -> None:
    result = run_schedule(SCENARIOS[name], seed)
    assert result.failure is None, f"{result.failure}\n{result.story}"


@pytest.mark.parametrize("name", _QUICK)
def test_simulation_finds_a_reverted_fix(name: str) -> None:
    found = find(BY_NAME[name], seconds=60.0)
    assert found.result is not None
    assert found.result.failure is not None
