"""`make bench`: measure the product on this machine and print what was measured.

Durability of every figure: JetStream file storage, one replica, fsync each second (the embedded default);
a submit is answered after the snapshot and the job are acknowledged by the server.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import nats
import uvloop
from nats.js import JetStreamContext

from benchmarks.load import submit, submit_slowly
from benchmarks.stack import resident_mb, running_stack

RUNS = 2000
CONNECTIONS = 32
IDLE_RUNS = 200
CONCURRENCY = 4


async def measure() -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="pyoco-bench-", dir=Path.cwd()) as folder:
        async with running_stack(Path(folder), concurrency=CONCURRENCY) as stack:
            connection = await nats.connect(stack.nats_url)
            context = connection.jetstream()
            figures = await _throughput(stack.port, context)
            figures |= await _latency(stack.port, context)
            figures["gateway_mb"] = resident_mb(stack.gateway_pid)
            figures["worker_mb"] = resident_mb(stack.worker_pid)
            await connection.close()
    return figures


async def _throughput(port: int, context: JetStreamContext) -> dict[str, float]:
    started = time.perf_counter()
    load = await submit(port, runs=RUNS, connections=CONNECTIONS)
    await _until_done(context)
    seconds = time.perf_counter() - started
    centiles = statistics.quantiles(load.latencies, n=100)
    return {
        "submits_per_s_while_running": RUNS / load.seconds,
        "submit_p50_ms": centiles[49] * 1e3,
        "submit_p99_ms": centiles[98] * 1e3,
        "noop_runs_per_s": RUNS / seconds,
    }


async def _latency(port: int, context: JetStreamContext) -> dict[str, float]:
    load = await submit_slowly(port, runs=IDLE_RUNS, every_sec=0.02)
    await _until_done(context)
    bucket = await context.key_value("pyoco_runs")
    waits = []
    for run_id in load.run_ids:
        run = msgspec.json.decode((await bucket.get(run_id)).value or b"")
        if run["status"] != "COMPLETED":
            raise RuntimeError(f"run {run_id} is {run['status']}: {run['error']}")
        waits.append((run["start_time"] - run["submitted_at"]) * 1e3)
    centiles = statistics.quantiles(waits, n=100)
    return {"submit_to_start_p50_ms": centiles[49], "submit_to_start_p99_ms": centiles[98]}


async def _until_done(context: JetStreamContext) -> None:
    while (await context.stream_info("PYOCO_WORK")).state.messages:
        await asyncio.sleep(0.01)


def main() -> None:
    figures = uvloop.run(measure())
    print(
        f"{RUNS} no-op runs, {CONNECTIONS} connections, {CONCURRENCY} slots; file storage, fsync each second"
    )
    for name, value in figures.items():
        print(f"  {name:30} {value:10.2f}")
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_bytes(msgspec.json.format(msgspec.json.encode(figures)))


if __name__ == "__main__":
    main()
