"""`make bench-growth`: runs/s under constant load while stored runs accumulate, up to 1,000,000.

Beside it a plain client: three compare-and-set writes for each run, to one bucket of the same NATS server.
What the server itself costs more with more keys is in both curves; what we ask of it, in the first one only.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec
import uvloop

from benchmarks.comparison.measures import CONNECTIONS, centiles
from benchmarks.harness.environments import ROOT, NotMeasured
from benchmarks.harness.processes import cpu_seconds, memory_use
from benchmarks.peers.ours import OURS
from benchmarks.report import page
from benchmarks.report.results import machine, now
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.embedded.embedded_server import EmbeddedNats
from pyoco_server.broker.jetstream.kv import Bucket
from pyoco_server.broker.streams_and_buckets import ensure_resources
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.run_models import new_run_id

RUNS: Final = 1_000_000
KEPT: Final = 0.85
RESULTS: Final = ROOT / "benchmarks" / "results" / "growth.json"
PICTURE: Final = ROOT / "docs" / "images" / "growth.png"

_FIRST_SEC: Final = 60.0
_WINDOW_SEC: Final = 10.0
# Not /tmp, which may be memory.
_DATA: Final = Path("/var/tmp")
_VALUE: Final = bytes(500)

Window = dict[str, float]


class Growth(msgspec.Struct):
    taken_at: str
    machine: dict[str, object]
    ours: list[Window]
    plain: list[Window]


async def ours(folder: Path, goal: int) -> list[Window]:
    """Constant submits over HTTP, with one worker."""
    found: list[Window] = []
    stored = 0
    async with OURS.start(folder, workers=True) as stack:
        while stored < goal:
            before = _cpu(stack.processes)
            load = await stack.sustain(seconds=_WINDOW_SEC, connections=CONNECTIONS)
            stored += load.ended
            window = _window(stored, load.ended, load.seconds, before, _cpu(stack.processes))
            window |= centiles("submit", load.latencies)
            window["gateway_mb"] = memory_use(stack.processes["gateway"]).main_mb
            found.append(window)
            _print("ours", window)
        if missing := await stack.wait(limit_sec=60):
            raise NotMeasured(f"{missing} runs were not done")
    return found


async def plain(folder: Path, goal: int) -> list[Window]:
    """Three compare-and-set writes for each run, without anything else."""
    found: list[Window] = []
    async with EmbeddedNats(folder / "nats") as server:
        config = NatsBackendConfig(nats_url=server.url, load_dotenv=False)
        connection = Connection(config, name="plain")
        connection.on_connect(lambda: ensure_resources(connection))
        await connection.start()
        await connection.wait_ready(10.0)
        bucket, parts, stored = Bucket(connection, config.runs_kv_bucket), {"broker": [server.pid]}, 0
        while stored < goal:
            before, started = _cpu(parts), time.perf_counter()
            async with asyncio.TaskGroup() as group:
                limit = started + _WINDOW_SEC
                writers = [group.create_task(_write_until(limit, bucket)) for _ in range(CONNECTIONS)]
            written = sum(writer.result() for writer in writers)
            stored += written
            window = _window(stored, written, time.perf_counter() - started, before, _cpu(parts))
            found.append(window)
            _print("plain client", window)
        await connection.close()
    return found


async def _write_until(limit: float, bucket: Bucket) -> int:
    """How many runs were written."""
    written = 0
    while time.perf_counter() < limit:
        key = new_run_id()
        revision = await bucket.create(key, _VALUE)
        for _ in range(2):
            revision = await bucket.update(key, _VALUE, revision=revision)
        written += 1
    return written


def _cpu(parts: dict[str, list[int]]) -> dict[str, float]:
    return {part: cpu_seconds(pids) for part, pids in parts.items()}


def _window(
    stored: int, runs: int, seconds: float, before: dict[str, float], after: dict[str, float]
) -> Window:
    cost = {f"{part}_cpu_ms": (after[part] - before[part]) * 1e3 / max(1, runs) for part in after}
    return {"stored": float(stored), "runs_per_s": runs / seconds, **cost}


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
