"""Runs a scenario: starts the stack, the clients and the fault injector, waits for the end, and checks."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyoco_server.errors import NatsUnavailable
from tests.faults.chaos.checks import Checker, CheckReport
from tests.faults.chaos.clients import Clients
from tests.faults.chaos.execution_log import read_execution_log
from tests.faults.chaos.executions import Executions
from tests.faults.chaos.fault_injector import Fault, FaultInjector, FaultKind
from tests.faults.chaos.history import History
from tests.faults.chaos.leaks import leaks
from tests.faults.chaos.stack import Size, Stack, running_stack
from tests.faults.chaos.workload import Mix, draw
from tests.support.waiting import LIMIT_SEC

# More than this many runs do not wait at once, so that faults meet runs in every state.
_MOST_OPEN = 16
_REST_LIMIT_SEC = LIMIT_SEC
_POLL_SEC = 0.1

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Scenario:
    """How much of what: faults in this order, spread over the runs; there may be more runs than `runs`."""

    kinds: Sequence[FaultKind]
    mix: Mix
    runs: int
    size: Size = field(default_factory=Size)
    most_open: int = _MOST_OPEN
    # Instead of short intervals.
    default_settings: bool = False
    # How many schedules start runs beside the clients, each second.
    schedules: int = 0


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    seed: str
    seconds: float
    faults: list[Fault]
    report: CheckReport
    retries: int

    def __str__(self) -> str:
        """What is needed to understand a failure and to repeat it."""
        log = "\n".join(map(str, self.faults))
        return f"seed {self.seed}\n{self.report}\nfaults:\n{log}"


async def run_scenario(
    scenario: Scenario, *, seed: str, folder: Path, report_progress: Progress = lambda _: None
) -> ScenarioResult:
    """Run the scenario; the same seed draws the same runs, faults and targets."""
    own_disk = FaultKind.FILL_DISK in scenario.kinds
    async with running_stack(
        folder, scenario.size, default_settings=scenario.default_settings, own_disk=own_disk
    ) as stack:
        injector = FaultInjector(stack, f"{seed}/faults")
        planned_runs = draw(scenario.mix, f"{seed}/work")
        clients = Clients(stack.urls, stack.history, planned_runs, most_open=scenario.most_open)
        following = asyncio.create_task(stack.history.follow())
        began = time.monotonic()
        await stack.schedules.create(scenario.schedules)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(clients.run())
                await _inject_faults(scenario, clients, injector, report_progress)
                clients.stop()
            seconds = time.monotonic() - began
            await stack.schedules.stop()
            report = await _check(stack, clients, injector, report_progress)
        finally:
            following.cancel()
            await asyncio.wait([following])
        return ScenarioResult(seed, seconds, injector.faults, report, clients.ledger.retries)


async def _inject_faults(
    scenario: Scenario, clients: Clients, injector: FaultInjector, report_progress: Progress
) -> None:
    """Inject the faults evenly over the runs; stop when no more runs are accepted."""
    part = scenario.runs / (len(scenario.kinds) + 1)
    for number, kind in enumerate(scenario.kinds, start=1):
        if not await clients.accepted(int(part * number), within=_REST_LIMIT_SEC):
            return
        report_progress(f"{len(clients.ledger.accepted)} runs accepted: {kind}")
        await injector.inject(kind)
    await clients.accepted(scenario.runs, within=_REST_LIMIT_SEC)


async def _check(
    stack: Stack, clients: Clients, injector: FaultInjector, report_progress: Progress
) -> CheckReport:
    report_progress("waiting for every run to end")
    await stack.history.until_all_ended(within=_REST_LIMIT_SEC)
    executions = Executions(read_execution_log(stack.execution_log))
    await executions.read_journal(stack.connection)
    # Read again: servers may have lost what was read before they were killed.
    truth = History(stack.connection)
    await truth.read_all()
    checker = Checker(clients.ledger, truth.runs, injector.faults)
    checker.check(executions)
    report = checker.report
    report.lost += _forgotten(stack.history, truth)
    report.leaks = await _lasting_leaks(stack, truth, executions)
    occurrences = await stack.schedules.check()
    report.occurrences = Counter(started=occurrences.started, skipped=occurrences.skipped)
    report.wrong_occurrences = occurrences.wrong
    return report


def _forgotten(seen: History, truth: History) -> list[str]:
    """Writes that were read once and are gone."""
    found = []
    for run_id, run in seen.runs.items():
        kept = truth.runs.get(run_id)
        sequences = {write.sequence for write in kept.writes} if kept else set()
        found += [f"{run_id}: {write}" for write in run.writes if write.sequence not in sequences]
    return found


async def _lasting_leaks(stack: Stack, truth: History, executions: Executions) -> list[str]:
    """What remains after a while: acknowledgements and the sweep come after a run's end."""
    limit = time.monotonic() + _REST_LIMIT_SEC
    found = ["not looked at yet"]
    while found and time.monotonic() < limit:
        try:
            found = await leaks(stack, known_runs=truth.runs, journalled_runs=executions.journalled_runs())
        except NatsUnavailable as error:
            found = [f"unknown, {error}"]
        await asyncio.sleep(_POLL_SEC)
    return found
