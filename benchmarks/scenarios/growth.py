"""`make bench-growth`: runs/s under constant load while stored runs accumulate, up to 1,000,000.

Beside it a plain client: three compare-and-set writes for each run, to one bucket of the same NATS server.
What the server itself costs more with more keys is in both curves; what we ask of it, in the first one only.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec
import uvloop

from benchmarks.comparison.measures import CONNECTIONS, centiles
from benchmarks.harness.environments import ROOT, NotMeasured
from benchmarks.harness.http_load import HttpConnection, post_request
from benchmarks.harness.processes import cpu_seconds, memory_use
from benchmarks.peers.http_stack import NOOP, HttpStack
from benchmarks.peers.ours import OURS
from benchmarks.report import page
from benchmarks.report.results import machine, now
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.embedded.embedded_server import EmbeddedNats
from pyoco_server.broker.jetstream.kv import Bucket
from pyoco_server.broker.resources import ensure_resources
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.models import new_run_id

RUNS: Final = 1_000_000
KEPT: Final = 0.85
RESULTS: Final = ROOT / "benchmarks" / "results" / "growth.json"
PICTURE: Final = ROOT / "docs" / "images" / "growth.png"

_FIRST_SEC: Final = 60.0
_WINDOW_SEC: Final = 10.0
_POLL_SEC: Final = 0.02
# Submits pause while so many runs wait: the rate is that of the slowest part.
_MOST_QUEUED: Final = 1_500
# Not /tmp, which may be memory.
_DATA: Final = Path("/var/tmp")
_VALUE: Final = bytes(500)

Window = dict[str, float]


class Growth(msgspec.Struct):
    taken_at: str
    machine: dict[str, object]
    ours: list[Window]
    plain: list[Window]


class _Progress:
    """What was done so far, and how long each step took."""

    def __init__(self) -> None:
        self.done = 0
        self.latencies: list[float] = []

    async def windows(self, goal: int, cpu: Callable[[], dict[str, float]]) -> AsyncIterator[Window]:
        """A figure of each window, until the goal is reached."""
        done, at, used = self.done, time.perf_counter(), cpu()
        while self.done < goal:
            await asyncio.sleep(_WINDOW_SEC)
            new, elapsed = self.done - done, time.perf_counter() - at
            spent = {part: seconds - used[part] for part, seconds in cpu().items()}
            window = {"stored": float(self.done), "runs_per_s": new / elapsed}
            window |= {f"{part}_cpu_ms": seconds * 1e3 / max(1, new) for part, seconds in spent.items()}
            if len(self.latencies) > 1:
                window |= centiles("submit", self.latencies)
            self.latencies.clear()
            yield window
            done, at, used = self.done, time.perf_counter(), cpu()


async def ours(folder: Path, goal: int) -> list[Window]:
    """Constant submits over HTTP, with one worker."""
    found: list[Window] = []
    async with OURS.start(folder, workers=True) as stack:
        progress = _Progress()
        async with asyncio.TaskGroup() as group:
            load = group.create_task(_submit(stack, progress, goal))

            def cpu() -> dict[str, float]:
                return {part: cpu_seconds(pids) for part, pids in stack.processes.items()}

            async for window in progress.windows(goal, cpu):
                window["gateway_mb"] = memory_use(stack.processes["gateway"]).main_mb
                found.append(window)
                _print("ours", window)
            await load
        if missing := await stack.wait(limit_sec=60):
            raise NotMeasured(f"{missing} runs were not done")
    return found


async def _submit(stack: HttpStack, progress: _Progress, goal: int) -> None:
    request = post_request("/runs", NOOP)
    submitted = 0
    may_submit = asyncio.Event()

    async def on_one_connection() -> None:
        nonlocal submitted
        connection = await HttpConnection.open(stack.port)
        while progress.done < goal:
            await may_submit.wait()
            sent_at = time.perf_counter()
            await connection.call(request)
            progress.latencies.append(time.perf_counter() - sent_at)
            submitted += 1
        connection.close()

    async with asyncio.TaskGroup() as group:
        for _ in range(CONNECTIONS):
            group.create_task(on_one_connection())
        while progress.done < goal:
            queued = await stack.queued()
            progress.done = max(progress.done, submitted - queued)
            if queued < _MOST_QUEUED:
                may_submit.set()
            else:
                may_submit.clear()
            await asyncio.sleep(_POLL_SEC)
        may_submit.set()


async def plain(folder: Path, goal: int) -> list[Window]:
    """Three compare-and-set writes for each run, without anything else."""
    found: list[Window] = []
    async with EmbeddedNats(folder / "nats") as server:
        config = NatsBackendConfig(nats_url=server.url, load_dotenv=False)
        connection = Connection(config, name="plain")
        connection.add_hook(lambda: ensure_resources(connection))
        await connection.start()
        await connection.wait_ready(10.0)
        bucket, progress = Bucket(connection, config.runs_kv_bucket), _Progress()
        async with asyncio.TaskGroup() as group:
            for _ in range(CONNECTIONS):
                group.create_task(_write(bucket, progress, goal))
            async for window in progress.windows(goal, lambda: {"broker": cpu_seconds([server.pid])}):
                found.append(window)
                _print("plain client", window)
        await connection.close()
    return found


async def _write(bucket: Bucket, progress: _Progress, goal: int) -> None:
    while progress.done < goal:
        key = new_run_id()
        revision = await bucket.create(key, _VALUE)
        for _ in range(2):
            revision = await bucket.update(key, _VALUE, revision=revision)
        progress.done += 1


def kept(windows: Sequence[Window]) -> float:
    """The rate of the last minute, as a part of that of the first."""
    of_a_minute = max(1, round(_FIRST_SEC / _WINDOW_SEC))
    first, last = windows[:of_a_minute], windows[-of_a_minute:]
    rates = [sum(window["runs_per_s"] for window in some) / len(some) for some in (first, last)]
    return rates[1] / rates[0]


def _print(who: str, window: Window) -> None:
    others = "  ".join(
        f"{name} {value:.3g}" for name, value in window.items() if name not in ("stored", "runs_per_s")
    )
    print(
        f"{who:<12} {window['stored']:>9,.0f} stored  {window['runs_per_s']:>6,.0f} runs/s  {others}",
        flush=True,
    )


async def _in_folder(measure: Callable[[Path, int], Awaitable[list[Window]]], goal: int) -> list[Window]:
    with tempfile.TemporaryDirectory(prefix="pyoco-bench-growth-", dir=_DATA) as name:
        return await measure(Path(name), goal)


async def run(goal: int) -> int:
    growth = Growth(now(), machine(), await _in_folder(ours, goal), await _in_folder(plain, goal))
    print(f"the plain client keeps {kept(growth.plain):.0%} of its first minute's rate")
    met = kept(growth.ours) >= KEPT
    print(f"{'met' if met else 'MISSED'}: {kept(growth.ours):.0%} kept at {goal:,} runs, {KEPT:.0%} wanted")
    if goal == RUNS:
        RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(growth), indent=1) + b"\n")
        page.plot("growth_plot.py", RESULTS, PICTURE)
    return 0 if met else 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench-growth", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS, help=f"stored runs at the end (default: {RUNS:,})")
    return uvloop.run(run(parser.parse_args().runs))


if __name__ == "__main__":
    sys.exit(main())
