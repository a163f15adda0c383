"""One short scenario for each kind of fault.

The seed is in the tests' names; `PYOCO_FAULT_SEED=<seed> pytest tests/faults` draws the same runs and faults.
"""

import os
import secrets
from pathlib import Path

import pytest

from tests.faults.chaos.fault_injector import FaultKind
from tests.faults.chaos.scenario import Scenario, run_scenario
from tests.faults.chaos.stack import Size
from tests.faults.chaos.workload import Mix

# Read here, since no test sees the settings of whoever runs it.
# The processes of one test run must agree on it: all of them collect every test by its name.
_SHARED = int(os.environ.get("PYTEST_XDIST_TESTRUNUID") or secrets.token_hex(8), 16)
SEED = os.environ.get("PYOCO_FAULT_SEED") or str(_SHARED % 10**6)

EVERYTHING = {"noop": 3, "chain": 3, "loop": 2, "steps": 2, "branches": 1, "cancellable": 1}
LONG = {"chain": 3, "loop": 2, "steps": 2, "branches": 1}
ENDLESS = {"cancellable": 3, "chain": 1, "steps": 1}
CANCELLED = {"cancellable": 3, "uncancellable": 2, "chain": 2, "noop": 1}
TWO_GATEWAYS = Size(gateways=2, workers=1)

SCENARIOS = {
    "workers-killed": Scenario([FaultKind.KILL_WORKER] * 2, Mix(EVERYTHING, task_sec=0.06), runs=60),
    "executors-killed": Scenario([FaultKind.KILL_EXECUTOR] * 3, Mix(EVERYTHING, task_sec=0.06), runs=60),
    # Long runs: the executors of the paused worker are at work when it wakes up.
    "a-worker-paused": Scenario(
        [FaultKind.PAUSE_WORKER] * 2, Mix(ENDLESS, task_sec=0.3, cancel_within_sec=3), runs=20, most_open=5
    ),
    "gateways-killed": Scenario(
        [FaultKind.KILL_GATEWAY] * 3, Mix({"noop": 1}, task_sec=0, keyed=0.7), runs=120, size=TWO_GATEWAYS
    ),
    "nats-killed": Scenario([FaultKind.KILL_NATS] * 2, Mix(EVERYTHING, task_sec=0.06), runs=60),
    "schedules": Scenario(
        [
            *(FaultKind.KILL_GATEWAY, FaultKind.KILL_NATS, FaultKind.KILL_GATEWAY),
            *(FaultKind.KILL_GATEWAY, FaultKind.KILL_NATS, FaultKind.KILL_GATEWAY),
        ],
        Mix({"chain": 3, "sleeper": 1}, task_sec=0.3),
        runs=60,
        most_open=8,
        size=Size(gateways=2, workers=2, slots=3),
        schedules=4,
    ),
    "disk-full": Scenario([FaultKind.FILL_DISK], Mix(EVERYTHING, task_sec=0.06, keyed=0.7), runs=60),
    "a-leader-killed": Scenario(
        [FaultKind.KILL_LEADER], Mix(EVERYTHING, task_sec=0.06), runs=90, size=Size(nats=3)
    ),
    "killed-during-recovery": Scenario([FaultKind.KILL_SUCCESSOR], Mix(LONG, task_sec=0.2), runs=40),
    # Few at once, so that cancels find them begun.
    "killed-during-cancel": Scenario(
        [FaultKind.KILL_CANCELLER] * 2, Mix(CANCELLED, task_sec=0.06), runs=40, most_open=5
    ),
}


# In the name of each test, so that nobody has to look for it.
@pytest.mark.parametrize("seed", [SEED])
@pytest.mark.parametrize("name", SCENARIOS)
async def test_scenario_keeps_every_promise(name: str, seed: str, tmp_path: Path) -> None:
    outcome = await run_scenario(SCENARIOS[name], seed=seed, folder=tmp_path)
    assert not outcome.report.broken, str(outcome)
    assert outcome.report.accepted >= SCENARIOS[name].runs
    assert len(outcome.faults) >= len(SCENARIOS[name].kinds)
    assert bool(outcome.report.occurrences.total()) is bool(SCENARIOS[name].schedules)
