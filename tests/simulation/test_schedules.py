"""CI plays some schedules of each scenario; and the same seed gives the same story."""

import gc
import logging
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.simulation.failures.shrink import shrink
from tests.simulation.found_seeds import FOUND
from tests.simulation.invariants import recording
from tests.simulation.invariants.recording import Recorder
from tests.simulation.schedule import SCENARIOS, run_schedule
from tests.support.places import ROOT

_SEEDS = range(1, 9)
_PROGRAM = """
import logging, sys
from tests.simulation.schedule import SCENARIOS, run_schedule
logging.disable(logging.CRITICAL)
for name in sys.argv[1:]:
    print(run_schedule(SCENARIOS[name], 7).story)
"""


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


def test_write_that_breaks_an_invariant_fails_the_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "check_run_write", lambda run_id, *_: iter(["this write is wrong"]))
    assert run_schedule(SCENARIOS["submit"], 3).failure == "this write is wrong"


def test_callback_that_fails_fails_the_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise ValueError("a defect")

    monkeypatch.setattr(Recorder, "_on_journal", lambda self, stored: fail(stored))
    failure = run_schedule(SCENARIOS["submit"], 3).failure
    assert failure == "a callback has failed: ValueError('a defect')"


@pytest.mark.parametrize("name", ["submit", "answer"])
def test_given_decisions_replay_a_story(name: str) -> None:
    drawn = run_schedule(SCENARIOS[name], 3)
    assert run_schedule(SCENARIOS[name], 3, given=drawn.decisions).story == drawn.story


def test_same_seed_gives_the_same_story_in_every_process() -> None:
    stories = [
        subprocess.run(
            [sys.executable, "-c", _PROGRAM, *sorted(SCENARIOS)],
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert "starts" in stories[0]
    assert stories[0] == stories[1]
