"""`make bench-time`: what 100,000 sleeping runs and 10,000 schedules cost, and how they wake.

A gateway is measured empty, and with all of them idle. Then all sleepers are due within one minute, while
submits go on at a steady rate: each run must be queued exactly once, and the p99 of a submit is compared with
the one before. There are no workers: the queue is as far as a gateway brings a run.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import uvloop

from benchmarks.comparison.measures import centiles
from benchmarks.harness.environments import NotMeasured
from benchmarks.harness.gateways import Gateway, started
from benchmarks.harness.http_load import HttpConnection, get_request, post_request
from benchmarks.harness.processes import cpu_seconds, memory_use
from benchmarks.harness.sleepers import connected, seed_schedules, seed_sleepers
from pyoco_server.broker.embedded.embedded_server import EmbeddedNats
from pyoco_server.broker.jetstream.stream_reads import read_batch
from pyoco_server.broker.queue.work_queue import head_of
from pyoco_server.config import NatsBackendConfig

SLEEPERS: Final = 100_000
SCHEDULES: Final = 10_000
IDLE_SHARE: Final = 0.02
MEMORY_MB: Final = 150.0
SLOWER: Final = 2.0

_MINUTE: Final = 60.0
_IDLE_SEC: Final = 60.0
_USUAL_SEC: Final = 30.0
_SETTLE_SEC: Final = 15.0
# How many are seeded a second at least: the sleepers must not be due before.
_SEEDED_A_SEC: Final = 800.0
_LIMIT_SEC: Final = 1200.0
_SUBMITS_A_SEC: Final = 50.0
_CONNECTIONS: Final = 4
_NOOP: Final = {"flow_name": "noop", "params": {"number": 7}}


@dataclass(frozen=True)
class Idle:
    # Of one core.
    share: float
    memory_mb: float


async def main(sleepers: int, schedules: int, idle_sec: float, within_sec: float) -> bool:
    with tempfile.TemporaryDirectory(prefix="pyoco-bench-", dir="/var/tmp") as name:
        folder = Path(name)
        async with EmbeddedNats(folder / "nats") as server:
            config = NatsBackendConfig(nats_url=server.url, load_dotenv=False)
            async with started(server.url, folder) as gateway:
                empty = await _idle("empty", gateway, idle_sec)
            due_at = time.time() + sleepers / _SEEDED_A_SEC + idle_sec + _USUAL_SEC + 2 * _SETTLE_SEC + 30
            began = time.perf_counter()
            spread = (due_at + within_sec * number / sleepers for number in range(sleepers))
            await seed_sleepers(config, spread)
            await seed_schedules(config, schedules)
            took = time.perf_counter() - began
            print(f"{sleepers:,} sleepers and {schedules:,} schedules seeded in {took:.0f} s")
            async with started(server.url, folder) as gateway:
                full = await _idle("full", gateway, idle_sec)
                usual_ms = await _submits(gateway, time.time() + _USUAL_SEC)
                print(f"submits before: p99 {usual_ms:.1f} ms")
                if time.time() > due_at:
                    raise NotMeasured("the sleepers were due before everything was ready")
                await asyncio.sleep(max(0.0, due_at - time.time()))
                took, meanwhile_ms = await _wake_all(gateway, sleepers, due_at)
                late = max(0.0, took - within_sec)
                memory_mb = memory_use([gateway.pid]).main_mb
                await _check_queue(config, sleepers)
    print(f"memory after all have woken: {memory_mb:.0f} MB")
    more = full.share - empty.share
    verdicts = {
        f"idle cost at most {IDLE_SHARE:.0%} of a core more ({more:.2%})": more <= IDLE_SHARE,
        f"memory under {MEMORY_MB:g} MB ({full.memory_mb:.0f} MB)": full.memory_mb < MEMORY_MB,
        f"p99 of a submit at most {SLOWER:g} times the usual ({meanwhile_ms / usual_ms:.2f} times)": (
            meanwhile_ms <= SLOWER * usual_ms
        ),
        f"all queued once, the last {late:.0f} s after its time": True,
    }
    for target, met in verdicts.items():
        print(f"{'met' if met else 'MISSED'}: {target}")
    return all(verdicts.values())


async def _idle(what: str, gateway: Gateway, seconds: float) -> Idle:
    await asyncio.sleep(_SETTLE_SEC)
    before = cpu_seconds([gateway.pid])
    await asyncio.sleep(seconds)
    share = (cpu_seconds([gateway.pid]) - before) / seconds
    found = Idle(share, memory_use([gateway.pid]).main_mb)
    print(
        f"{what}: ready after {gateway.ready_sec:.1f} s, {found.share:.2%} of a core, "
        f"{found.memory_mb:.0f} MB"
    )
    return found


async def _wake_all(gateway: Gateway, sleepers: int, due_at: float) -> tuple[float, float]:
    """How long it took to queue all of them, and the p99 of submits until then, in milliseconds."""
    before = cpu_seconds([gateway.pid])
    latencies: list[float] = []
    async with asyncio.TaskGroup() as group:
        woken = group.create_task(_until_awake(gateway, sleepers))
        submitting = [
            group.create_task(_submit_until(gateway, woken, latencies)) for _ in range(_CONNECTIONS)
        ]
        await woken
        await asyncio.gather(*submitting)
    took = time.time() - due_at
    p99 = centiles("submit", latencies)["submit_p99_ms"]
    cpu = cpu_seconds([gateway.pid]) - before
    print(
        f"{sleepers:,} woken in {took:.0f} s, {sleepers / took:,.0f} a second, with {cpu:.0f} s of CPU time; "
        f"{len(latencies)} submits meanwhile: p99 {p99:.1f} ms, max {max(latencies) * 1e3:.0f} ms"
    )
    return took, p99


async def _until_awake(gateway: Gateway, sleepers: int) -> None:
    connection = await HttpConnection.open(gateway.port)
    limit = time.perf_counter() + _LIMIT_SEC
    while (left := await _sleeping(connection)) > 0:
        if time.perf_counter() > limit:
            raise NotMeasured(f"{left} of {sleepers} runs still sleep after {_LIMIT_SEC:g} s")
        await asyncio.sleep(0.5)
    connection.close()


async def _sleeping(connection: HttpConnection) -> int:
    answer = await connection.call(get_request("/runs?status=WAITING&limit=1&total=true"))
    return int(msgspec.json.decode(answer)["total"])


async def _submits(gateway: Gateway, until: float) -> float:
    """The p99 in milliseconds of submits at a steady rate."""
    latencies: list[float] = []
    over = asyncio.create_task(asyncio.sleep(max(0.0, until - time.time())))
    await asyncio.gather(*(_submit_until(gateway, over, latencies) for _ in range(_CONNECTIONS)))
    return centiles("submit", latencies)["submit_p99_ms"]


async def _submit_until(gateway: Gateway, over: "asyncio.Task[None]", latencies: list[float]) -> None:
    connection = await HttpConnection.open(gateway.port)
    request = post_request("/runs", _NOOP)
    next_at = time.perf_counter()
    while not over.done():
        next_at += _CONNECTIONS / _SUBMITS_A_SEC
        began = time.perf_counter()
        await connection.call(request)
        latencies.append(time.perf_counter() - began)
        await asyncio.sleep(max(0.0, next_at - time.perf_counter()))
    connection.close()


async def _check_queue(config: NatsBackendConfig, sleepers: int) -> None:
    """Each sleeper has exactly one job."""
    jobs: Counter[str] = Counter()
    async with connected(config) as connection:
        after = 0
        subject = f"{config.work_subject_prefix}.sleepers"
        while batch := await read_batch(connection, config.work_stream, subject, after=after):
            jobs.update(head_of(message.data).run_id for message in batch)
            after = batch[-1].sequence
    twice = sum(count > 1 for count in jobs.values())
    if len(jobs) != sleepers or twice:
        raise NotMeasured(f"{len(jobs)} of {sleepers} runs are queued, {twice} of them more than once")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="make bench-time", description=__doc__)
    parser.add_argument("--sleepers", type=int, default=SLEEPERS, help=f"default: {SLEEPERS}")
    parser.add_argument("--schedules", type=int, default=SCHEDULES, help=f"default: {SCHEDULES}")
    parser.add_argument("--within-sec", type=float, default=_MINUTE, help="all are due within this time")
    parser.add_argument("--idle-sec", type=float, default=_IDLE_SEC, help=f"default: {_IDLE_SEC:g}")
    arguments = parser.parse_args()
    sys.exit(not uvloop.run(main(**vars(arguments))))
