"""The measurements of every peer. Each session starts the peer again, without the load of another."""

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.environments import NotMeasured
from benchmarks.harness.processes import cpu_seconds, memory_use
from benchmarks.peers.http_stack import add_large_flows
from benchmarks.peers.peer import Peer, Stack, Work

CONNECTIONS = 32
FEW_RUNS = 2_000
# The time decides how many they are.
_NO_LIMIT = 10_000_000
SUSTAINED_SEC = 30.0
IDLE_RUNS = 300
IDLE_EVERY_SEC = 0.02
CHAIN_TASKS = 40
CHAIN_TASK_SEC = 0.01
CHAIN_TIMES = 5
LARGE_FLOW_TASKS = 1_000

# Not /tmp, which may be memory: files must cost what they cost.
_DATA = Path("/var/tmp")

Figures = dict[str, float]


@dataclass(frozen=True)
class Session:
    """Measures on one start of a peer, with the time they may take; starting and stopping comes on top."""

    name: str
    measure: Callable[[Peer, Path], Awaitable[Figures]]
    limit_sec: float
    full_only: bool = False


async def run_session(session: Session, peer: Peer) -> Figures:
    with tempfile.TemporaryDirectory(prefix="pyoco-bench-", dir=_DATA) as name:
        folder = Path(name)
        folder.chmod(0o755)  # PostgreSQL runs as another user
        return await session.measure(peer, folder)


async def submits(peer: Peer, folder: Path) -> Figures:
    """How fast runs are accepted while no worker executes them."""
    async with peer.start(folder, workers=False) as stack, asyncio.timeout(SUBMITS.limit_sec):
        load = await stack.submit(runs=FEW_RUNS, connections=CONNECTIONS, limit_sec=SUBMITS.limit_sec / 2)
    return {
        "submits_per_s": load.submitted / load.seconds,
        **centiles("submit", load.latencies),
    }


async def sustained_submits(peer: Peer, folder: Path) -> Figures:
    """The same without a pause: a burst is over within half a second, and says little of the next one."""
    limit_sec = SUSTAINED_SUBMITS.limit_sec
    async with peer.start(folder, workers=False) as stack, asyncio.timeout(limit_sec):
        load = await stack.submit(runs=_NO_LIMIT, connections=CONNECTIONS, limit_sec=SUSTAINED_SEC)
    return {
        "submits_per_s_sustained": load.submitted / load.seconds,
        **centiles("sustained_submit", load.latencies),
    }


async def everyday(peer: Peer, folder: Path) -> Figures:
    """No-op runs and bare functions, then single runs on idle workers, then chains."""
    async with _limited(peer, folder, EVERYDAY.limit_sec) as stack:
        figures = await _throughput(stack, EVERYDAY.limit_sec / 2)
        figures |= await _functions(stack, EVERYDAY.limit_sec / 4)
        figures |= await _submit_to_start(stack, folder / "stamps")
        chains = [
            await stack.chain(tasks=CHAIN_TASKS, task_sec=CHAIN_TASK_SEC, limit_sec=20)
            for _ in range(CHAIN_TIMES)
        ]
        return figures | {"chain_s": statistics.median(chains)}


async def large_flow(peer: Peer, folder: Path) -> Figures:
    add_large_flows(folder)
    async with _limited(peer, folder, LARGE_FLOW.limit_sec) as stack:
        seconds = await stack.chain(tasks=LARGE_FLOW_TASKS, task_sec=0, limit_sec=LARGE_FLOW.limit_sec)
        return {"large_flow_s": seconds}


async def sustained(peer: Peer, folder: Path) -> Figures:
    """No-op runs without a pause: a short load is over before anything slows down."""
    async with _limited(peer, folder, SUSTAINED.limit_sec) as stack:
        before = _cpu(stack)
        load = await stack.sustain(seconds=SUSTAINED_SEC, connections=CONNECTIONS)
        figures = {
            "noop_runs_per_s_sustained": load.ended / load.seconds,
            "noop_runs_sustained": load.ended,
            **centiles("busy_submit", load.latencies),
            **_cpu_per_run(stack, before, load.ended, "_sustained"),
            **_memory(stack, "_sustained"),
        }
        if missing := await stack.wait(limit_sec=SUSTAINED.limit_sec / 2):
            raise NotMeasured(f"{missing} runs had not ended {SUSTAINED.limit_sec / 2:g} s after the load")
        return figures


SUBMITS = Session("submits", submits, limit_sec=60)
EVERYDAY = Session("everyday", everyday, limit_sec=120)
LARGE_FLOW = Session("large flow", large_flow, limit_sec=60)
SUSTAINED = Session("sustained", sustained, limit_sec=4 * SUSTAINED_SEC, full_only=True)
SUSTAINED_SUBMITS = Session("30 s of submits", sustained_submits, limit_sec=3 * SUSTAINED_SEC, full_only=True)
SESSIONS = (SUBMITS, SUSTAINED_SUBMITS, EVERYDAY, LARGE_FLOW, SUSTAINED)


@asynccontextmanager
async def _limited(peer: Peer, folder: Path, limit_sec: float) -> AsyncIterator[Stack]:
    async with peer.start(folder, workers=True) as stack, asyncio.timeout(limit_sec):
        yield stack


async def _throughput(stack: Stack, limit_sec: float) -> Figures:
    """From the first submit to the last end. At the limit, what has ended by then counts."""
    before = _cpu(stack)
    started = time.perf_counter()
    load = await stack.submit(runs=FEW_RUNS, connections=CONNECTIONS, limit_sec=limit_sec)
    missing = await stack.wait(limit_sec=max(0.0, started + limit_sec - time.perf_counter()))
    seconds = time.perf_counter() - started
    ended = max(1, load.submitted - missing)
    return {
        "noop_runs_per_s": ended / seconds,
        "noop_runs": ended,
        "busy_submits_per_s": load.submitted / load.seconds,
        **_cpu_per_run(stack, before, ended),
        **_memory(stack),
    }


def _cpu(stack: Stack) -> dict[str, float]:
    return {part: cpu_seconds(pids) for part, pids in stack.processes.items()}


def _cpu_per_run(stack: Stack, before: dict[str, float], runs: int, suffix: str = "") -> Figures:
    return {
        f"{part}_cpu_ms_per_run{suffix}": (seconds - before[part]) * 1e3 / max(1, runs)
        for part, seconds in _cpu(stack).items()
    }


async def _functions(stack: Stack, limit_sec: float) -> Figures:
    """Where a peer can be given a bare function, without Pyoco: as many of these."""
    if Work.FUNCTION not in stack.kinds_of_work:
        return {}
    started = time.perf_counter()
    load = await stack.submit(runs=FEW_RUNS, connections=CONNECTIONS, limit_sec=limit_sec, work=Work.FUNCTION)
    missing = await stack.wait(limit_sec=max(0.0, started + limit_sec - time.perf_counter()))
    return {"functions_per_s": (load.submitted - missing) / (time.perf_counter() - started)}


def _memory(stack: Stack, suffix: str = "") -> Figures:
    figures: Figures = {}
    for part in ("gateway", "worker"):
        if part in stack.processes:
            used = memory_use(stack.processes[part])
            figures[f"{part}_mb{suffix}"] = used.main_mb
            figures[f"{part}_child_mb{suffix}"] = used.child_mb
            figures[f"{part}_total_mb{suffix}"] = used.total_mb
    return figures


async def _submit_to_start(stack: Stack, stamps: Path) -> Figures:
    """From just before the submit is sent to the first line of the task."""
    await stack.stamp(runs=IDLE_RUNS, every_sec=IDLE_EVERY_SEC, stamps=stamps)
    await stack.wait(limit_sec=30)
    lines = [line.split() for line in stamps.read_text().splitlines()]
    return centiles("submit_to_start", [float(started) - float(sent) for sent, started in lines])


def quantile(values: list[float], share: float) -> float:
    """The smallest value that no more than this share of them is below."""
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def centiles(name: str, seconds: list[float]) -> Figures:
    hundredths = statistics.quantiles(seconds, n=100)
    return {f"{name}_p50_ms": hundredths[49] * 1e3, f"{name}_p99_ms": hundredths[98] * 1e3}
