"""`make bench-waits`: the cost of 10,000 runs that wait for people, and how soon an answered one continues.

From just before the answer is sent until the task has received it, on an idle worker, with everything on
this machine. The waiting runs are looked at with every worker stopped: they need none.
"""

import argparse
import asyncio
import os
import signal
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import uvloop

from benchmarks.comparison.measures import centiles
from benchmarks.harness import http_load
from benchmarks.harness.environments import NotMeasured
from benchmarks.harness.http_load import HttpConnection
from benchmarks.harness.processes import memory_use
from benchmarks.peers.http_stack import HttpStack
from benchmarks.peers.ours import OURS

WAITING: Final = 10_000
ANSWERED: Final = 300
TARGET_P95_MS: Final = 250.0

_EVERY_SEC: Final = 0.05
_POLL_SEC: Final = 0.05
_LIMIT_SEC: Final = 300.0


async def main(waiting: int, answered: int) -> bool:
    with tempfile.TemporaryDirectory(prefix="pyoco-bench-", dir="/var/tmp") as name:
        folder = Path(name)
        async with OURS.start(folder, workers=True) as stack:
            memory_mb = [_gateway_memory_mb(stack)]
            began = time.perf_counter()
            # Caches and the newest changes, which are bounded, come first; the second half shows what a run
            # costs.
            first = waiting // 2
            await _begin_to_wait(stack, first, total=first)
            memory_mb.append(_gateway_memory_mb(stack))
            await _begin_to_wait(stack, waiting - first, total=waiting)
            print(f"{waiting} runs wait after {time.perf_counter() - began:.1f} s")
            met = await _answers(stack, folder / "stamps", answered)
            await _without_workers(stack, waiting)
            memory_mb.append(_gateway_memory_mb(stack))
            _report_memory(memory_mb, first, waiting)
    return met


def _gateway_memory_mb(stack: HttpStack) -> float:
    return memory_use(stack.processes["gateway"]).main_mb


def _report_memory(memory_mb: list[float], first: int, waiting: int) -> None:
    before, early, after = memory_mb
    each_kb = (after - early) * 1024 / max(1, waiting - first)
    print(
        f"gateway: {before:.0f} MB before, {early:.0f} MB with {first} waiting runs, {after:.0f} MB with "
        f"{waiting}: {each_kb:.1f} kB for each of the last {waiting - first}"
    )


async def _begin_to_wait(stack: HttpStack, runs: int, *, total: int) -> None:
    body = {"flow_name": "asking", "params": {"stamps": ""}}
    await http_load.submit(stack.port, body, runs=runs, connections=16, limit_sec=_LIMIT_SEC)
    # Not before: the gateway closes a connection that says nothing for a while.
    connection = await HttpConnection.open(stack.port)
    await _until(lambda: _total(connection, "/waits?limit=1"), total)
    connection.close()


async def _answers(stack: HttpStack, stamps: Path, runs: int) -> bool:
    """One run at a time: each is answered when it has begun to wait, on a worker that has nothing else."""
    connection = await HttpConnection.open(stack.port)
    for _ in range(runs):
        run_id = await stack.submit_flow(connection, "asking", stamps=str(stamps))
        await _until(partial(_is_waiting, stack, connection, run_id), True)
        await connection.post("/resume", {"runId": run_id, "payload": time.time()})
        await stack.until_ended(connection, run_id)
        await asyncio.sleep(_EVERY_SEC)
    connection.close()
    lines = [line.split() for line in stamps.read_text().splitlines()]
    seconds = [float(began) - float(sent) for sent, began in lines]
    if len(seconds) != runs:
        raise NotMeasured(f"{len(seconds)} of {runs} answered runs went on")
    figures = centiles("answer", seconds)
    ordered = sorted(seconds)
    p95 = ordered[int(len(ordered) * 0.95)] * 1e3
    print(
        f"answer to continuation, {runs} runs: p50 {figures['answer_p50_ms']:.1f} ms   p95 {p95:.1f} ms   "
        f"p99 {figures['answer_p99_ms']:.1f} ms   max {ordered[-1] * 1e3:.1f} ms"
    )
    return p95 <= TARGET_P95_MS


async def _without_workers(stack: HttpStack, waiting: int) -> None:
    """Waiting runs need no message in the queue, and no process beside the gateway and NATS."""
    queued = await stack.queued()
    for pid in stack.workers.values():
        os.kill(pid, signal.SIGTERM)
    await _until(lambda: _none_alive(stack), True)
    print(f"{waiting} waiting runs: {queued} messages in the queue, 0 workers and executors needed")


async def _none_alive(stack: HttpStack) -> bool:
    return not any(Path(f"/proc/{pid}/status").exists() for pid in stack.workers.values())


async def _total(connection: HttpConnection, path: str) -> int:
    return int((await _get(connection, path))["total"])


async def _is_waiting(stack: HttpStack, connection: HttpConnection, run_id: str) -> bool:
    return bool((await stack.snapshot(connection, run_id))["status"] == "WAITING_HUMAN")


async def _get(connection: HttpConnection, path: str) -> Any:
    return msgspec.json.decode(
        await connection.call(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    )


async def _until(probe: Any, wanted: object) -> None:
    limit = time.perf_counter() + _LIMIT_SEC
    while (found := await probe()) != wanted:
        if time.perf_counter() > limit:
            raise NotMeasured(f"{found!r} instead of {wanted!r} after {_LIMIT_SEC:g} s")
        await asyncio.sleep(_POLL_SEC)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="make bench-waits", description=__doc__)
    parser.add_argument("--waiting", type=int, default=WAITING, help=f"default: {WAITING}")
    parser.add_argument("--answered", type=int, default=ANSWERED, help=f"default: {ANSWERED}")
    arguments = parser.parse_args()
    met = uvloop.run(main(arguments.waiting, arguments.answered))
    print(f"p95 within {TARGET_P95_MS:g} ms: {'met' if met else 'NOT met'}")
    sys.exit(not met)
