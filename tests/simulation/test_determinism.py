"""The same seed gives the same story: in one process twice, and with another order of hashes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.schedule import SCENARIOS, run_schedule

_ROOT = Path(__file__).parents[2]
_PROGRAM = """
import sys
from tests.simulation.schedule import SCENARIOS, run_schedule
for name in sys.argv[1:]:
    print(run_schedule(SCENARIOS[name], 7).story)
"""


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_same_seed_gives_the_same_story(name: str) -> None:
    first, second = (run_schedule(SCENARIOS[name], 7) for _ in range(2))
    assert first.story == second.story
    assert first.decisions == second.decisions


@pytest.mark.parametrize("name", ["submit", "answer"])
def test_given_decisions_replay_a_story(name: str) -> None:
    drawn = run_schedule(SCENARIOS[name], 3)
    assert run_schedule(SCENARIOS[name], 3, given=drawn.decisions).story == drawn.story


def test_story_does_not_depend_on_the_order_of_hashes() -> None:
    names = sorted(SCENARIOS)
    stories = [
        subprocess.run(
            [sys.executable, "-c", _PROGRAM, *names],
            cwd=_ROOT,
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert "starts" in stories[0]
    assert stories[0] == stories[1]
