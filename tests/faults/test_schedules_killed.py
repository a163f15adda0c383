"""Two gateways and schedules: one gateway after the other is killed (SIGKILL), and NATS is restarted twice.

Every occurrence has one run or one reason, and none has two. `make chaos-schedules` takes five minutes.
"""

import asyncio
import os
import sys
import time
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Final

from tests.faults.chaos.scheduling import OccurrenceReport
from tests.faults.chaos.stack import Size, Stack, running_stack
from tests.support.broker.nats_server import NatsServer
from tests.support.waiting import LIMIT_SEC


@dataclass(frozen=True)
class Plan:
    seconds: float
    # Of the schedules, and of the kills.
    every_sec: float
    kill_every_sec: float
    nats_restarts: int = 2


SHORT: Final = Plan(seconds=30, every_sec=1, kill_every_sec=5)
FULL: Final = Plan(seconds=300, every_sec=2, kill_every_sec=20)
# Read here, since no test sees the settings of whoever runs it.
PLAN: Final = FULL if os.environ.get("PYOCO_FAULT_SCHEDULES") == "full" else SHORT


async def test_each_occurrence_has_one_run_or_one_reason(tmp_path: Path) -> None:
    async with running_stack(tmp_path, Size(gateways=2, workers=1, slots=3)) as stack:
        # One starts all of its runs, the other one skips while a run is open.
        await stack.schedules.create(2, every_sec=PLAN.every_sec)
        kills, restarts = await _inject(stack)
        await stack.schedules.stop()
        report = await stack.schedules.check()
    sys.stdout.write(f"{_figures(kills, restarts, report)}\n")
    assert report.wrong == []
    assert restarts == PLAN.nats_restarts
    assert kills >= PLAN.seconds / PLAN.kill_every_sec - PLAN.nats_restarts
    assert report.started + report.skipped >= 2 * (PLAN.seconds // PLAN.every_sec)
    assert report.skipped > 0


async def _inject(stack: Stack) -> tuple[int, int]:
    """How often a gateway was killed, and NATS restarted, within the time of the plan."""
    began = time.monotonic()
    restart_at = [
        PLAN.seconds * number / (PLAN.nats_restarts + 1) for number in range(1, PLAN.nats_restarts + 1)
    ]
    for number, gateway in enumerate(cycle(stack.gateways.values()), 1):
        await asyncio.sleep(max(0.0, began + number * PLAN.kill_every_sec - time.monotonic()))
        elapsed = time.monotonic() - began
        if elapsed >= PLAN.seconds:
            return number - 1, PLAN.nats_restarts - len(restart_at)
        gateway.kill()
        if restart_at and elapsed >= restart_at[0]:
            restart_at.pop(0)
            assert isinstance(stack.nats, NatsServer)
            await asyncio.to_thread(stack.nats.restart)
            await stack.connection.wait_ready(LIMIT_SEC)
        await gateway.start()
    raise AssertionError("a cycle has no end")


def _figures(kills: int, restarts: int, report: OccurrenceReport) -> str:
    return (
        f"{PLAN.seconds:g} s, every {PLAN.every_sec:g} s: {kills} gateways killed, NATS restarted {restarts} "
        f"times; {report.started} runs, {report.skipped} reasons, {len(report.wrong)} wrong"
    )
