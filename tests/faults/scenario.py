"""A scenario from its start to its verdict: the stack, the clients, the villain, and the rest afterwards."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyoco_server.errors import NatsUnavailable
from tests.faults.book import read_book
from tests.faults.clients import Clients
from tests.faults.executions import Executions
from tests.faults.history import History
from tests.faults.leaks import leaks
from tests.faults.stack import Size, Stack, running_stack
from tests.faults.verdict import Judge, Verdict
from tests.faults.villain import Crime, Fault, Villain
from tests.faults.work import Mix, draw
from tests.support.waiting import LIMIT_SEC

# More than this many runs do not wait at once, so that faults meet runs in every state.
_MOST_OPEN = 16
# So long nothing may stand still.
_REST_LIMIT_SEC = LIMIT_SEC
_POLL_SEC = 0.1

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Scenario:
    """How much of what: faults in this order, spread over the runs; there may be more runs than `runs`."""

    crimes: Sequence[Crime]
    mix: Mix
    runs: int
    size: Size = field(default_factory=Size)
    most_open: int = _MOST_OPEN


@dataclass(frozen=True, slots=True)
class Outcome:
    seed: str
    seconds: float
    faults: list[Fault]
    verdict: Verdict
    retries: int

    def __str__(self) -> str:
        """All that is needed to understand what went wrong, and to do it again."""
        log = "\n".join(map(str, self.faults))
        return f"seed {self.seed}\n{self.verdict}\nfaults:\n{log}"


async def play(scenario: Scenario, *, seed: str, folder: Path, say: Say = lambda _: None) -> Outcome:
    """Play the scenario; the same seed draws the same runs, faults and victims."""
    async with running_stack(folder, scenario.size) as stack:
        villain = Villain(stack, f"{seed}/villain")
        works = draw(scenario.mix, f"{seed}/work")
        clients = Clients(stack.urls, stack.history, works, most_open=scenario.most_open)
        following = asyncio.create_task(stack.history.follow())
        began = time.monotonic()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(clients.run())
                await _strike(scenario, clients, villain, say)
                clients.stop()
            seconds = time.monotonic() - began
            verdict = await _judge(stack, clients, villain, say)
        finally:
            following.cancel()
            await asyncio.wait([following])
        return Outcome(seed, seconds, villain.faults, verdict, clients.ledger.retries)


async def _strike(scenario: Scenario, clients: Clients, villain: Villain, say: Say) -> None:
    """Commit the crimes, one after each equal part of the runs; no more when the product stands still."""
    part = scenario.runs / (len(scenario.crimes) + 1)
    for number, crime in enumerate(scenario.crimes, start=1):
        if not await clients.accepted(int(part * number), within=_REST_LIMIT_SEC):
            return
        say(f"{len(clients.ledger.accepted)} runs accepted: {crime}")
        await villain.commit(crime)
    await clients.accepted(scenario.runs, within=_REST_LIMIT_SEC)


async def _judge(stack: Stack, clients: Clients, villain: Villain, say: Say) -> Verdict:
    say("waiting for every run to end")
    await stack.history.until_all_ended(within=_REST_LIMIT_SEC)
    executions = Executions(read_book(stack.book))
    await executions.read_journal(stack.connection)
    # Read anew: what was read while servers died may not be what they have kept.
    truth = History(stack.connection)
    await truth.read_all()
    judge = Judge(clients.ledger, truth.runs, villain.faults)
    judge.judge(executions)
    verdict = judge.verdict
    verdict.lost += _forgotten(stack.history, truth)
    verdict.leaks = await _lasting_leaks(stack, truth, executions)
    return verdict


def _forgotten(seen: History, truth: History) -> list[str]:
    """Writes that could be read once and are gone."""
    found = []
    for run_id, run in seen.runs.items():
        kept = truth.runs.get(run_id)
        sequences = {write.sequence for write in kept.writes} if kept else set()
        found += [f"{run_id}: {write}" for write in run.writes if write.sequence not in sequences]
    return found


async def _lasting_leaks(stack: Stack, truth: History, executions: Executions) -> list[str]:
    """What is still left over after a while: acknowledgements and the sweep come after a run's end."""
    limit = time.monotonic() + _REST_LIMIT_SEC
    found = ["not looked at yet"]
    while found and time.monotonic() < limit:
        try:
            found = await leaks(stack, known_runs=truth.runs, journalled_runs=executions.journalled_runs())
        except NatsUnavailable as error:
            found = [f"unknown, {error}"]
        await asyncio.sleep(_POLL_SEC)
    return found
