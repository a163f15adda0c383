"""`make bench-time`: what 100,000 sleeping runs and 10,000 schedules cost, and how they wake.

A gateway is measured empty, and with all of them idle. Then all sleepers are due within one minute, while
submits go on at a steady rate: each run must be queued exactly once, and the p99 of a submit is compared with
the one before. Last, 20,000 runs with the same `start_at` are released in the same way. There are no workers:
the queue is as far as a gateway brings a run.
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
from benchmarks.harness.direct_writes import connected
from benchmarks.harness.environments import NotMeasured
from benchmarks.harness.gateways import Gateway, started
from benchmarks.harness.http_load import HttpConnection, get_request, post_request
from benchmarks.harness.processes import cpu_seconds, memory_use
from benchmarks.harness.sleepers import (
    DELAYED_TAG,
    SLEEPER_TAG,
    seed_delayed_starts,
    seed_schedules,
    seed_sleepers,
)
from pyoco_server.broker.embedded.embedded_server import EmbeddedNats
from pyoco_server.broker.jetstream.stream_reads import read_batch
from pyoco_server.broker.queue.work_queue import head_of
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.run_models import RunStatus

SLEEPERS: Final = 100_000
SCHEDULES: Final = 10_000
DELAYED: Final = 20_000
IDLE_SHARE: Final = 0.02
MEMORY_MB: Final = 150.0
SLOWER: Final = 2.0

_MINUTE: Final = 60.0
_IDLE_SEC: Final = 60.0
_USUAL_SEC: Final = 30.0
_SETTLE_SEC: Final = 15.0
# How many are seeded a second at least: what is seeded must not be due before.
_SEEDED_A_SEC: Final = 4000.0
# A gateway returns freed memory every 30 seconds.
_FREED_SEC: Final = 35.0
_LIMIT_SEC: Final = 1200.0
_SUBMITS_A_SEC: Final = 50.0
_CONNECTIONS: Final = 4
_NOOP: Final = {"flow_name": "noop", "params": {"number": 7}}


@dataclass(frozen=True)
class Idle:
    # Of one core.
    share: float
    memory_mb: float


@dataclass(frozen=True)
class Queued:
    # After the first was due.
    took_sec: float
    # Of the submits until then.
    p99_ms: float


async def main(sleepers: int, schedules: int, delayed: int, idle_sec: float, within_sec: float) -> bool:
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
                woken = await _until_queued(gateway, sleepers, due_at, RunStatus.WAITING)
                await _check_queue(config, SLEEPER_TAG, sleepers)
                await asyncio.sleep(_FREED_SEC)
                memory_mb = memory_use([gateway.pid]).main_mb
                print(f"memory {_FREED_SEC:g} s after all have woken: {memory_mb:.0f} MB")
                start_at = float(round(time.time() + delayed / _SEEDED_A_SEC + _SETTLE_SEC))
                await seed_delayed_starts(config, delayed, start_at)
                await asyncio.sleep(max(0.0, start_at - time.time()))
                released = await _until_queued(gateway, delayed, start_at, RunStatus.SCHEDULED)
                await _check_queue(config, DELAYED_TAG, delayed)
    more = full.share - empty.share
    late = max(0.0, woken.took_sec - within_sec)
    verdicts = {
        f"idle cost at most {IDLE_SHARE:.0%} of a core more ({more:.2%})": more <= IDLE_SHARE,
        f"memory under {MEMORY_MB:g} MB ({full.memory_mb:.0f} MB)": full.memory_mb < MEMORY_MB,
        f"memory under {MEMORY_MB:g} MB after all have woken ({memory_mb:.0f} MB)": memory_mb < MEMORY_MB,
        _slower("sleepers wake", woken, usual_ms): woken.p99_ms <= SLOWER * usual_ms,
        _slower("delayed runs start", released, usual_ms): released.p99_ms <= SLOWER * usual_ms,
        f"all queued once, the last sleeper {late:.0f} s after its time": True,
    }
    for target, met in verdicts.items():
        print(f"{'met' if met else 'MISSED'}: {target}")
    return all(verdicts.values())


def _slower(when: str, queued: Queued, usual_ms: float) -> str:
    times = queued.p99_ms / usual_ms
    return f"p99 of a submit at most {SLOWER:g} times the usual while {when} ({times:.2f} times)"


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


async def _until_queued(gateway: Gateway, count: int, due_at: float, status: RunStatus) -> Queued:
    """Submit at a steady rate until no run has this status any more."""
    before = cpu_seconds([gateway.pid])
    latencies: list[float] = []
    async with asyncio.TaskGroup() as group:
        queued = group.create_task(_until_none(gateway, count, status))
        for number in range(_CONNECTIONS):
            group.create_task(_submit_until(gateway, queued, latencies, number))
    took = time.time() - due_at
    p99 = centiles("submit", latencies)["submit_p99_ms"]
    cpu = cpu_seconds([gateway.pid]) - before
    print(
        f"{count:,} {status} queued in {took:.0f} s, {count / took:,.0f} a second, with {cpu:.0f} s of CPU "
        f"time; {len(latencies)} submits meanwhile: p99 {p99:.1f} ms, max {max(latencies) * 1e3:.0f} ms"
    )
    return Queued(took, p99)


async def _until_none(gateway: Gateway, count: int, status: RunStatus) -> None:
    connection = await HttpConnection.open(gateway.port)
    limit = time.perf_counter() + _LIMIT_SEC
    while (left := await _count(connection, status)) > 0:
        if time.perf_counter() > limit:
            raise NotMeasured(f"{left} of {count} runs are still {status} after {_LIMIT_SEC:g} s")
        await asyncio.sleep(0.5)
    connection.close()


async def _count(connection: HttpConnection, status: RunStatus) -> int:
    answer = await connection.call(get_request(f"/runs?status={status}&limit=1&total=true"))
    return int(msgspec.json.decode(answer)["total"])


async def _submits(gateway: Gateway, until: float) -> float:
    """The p99 in milliseconds of submits at a steady rate."""
    latencies: list[float] = []
    over = asyncio.create_task(asyncio.sleep(max(0.0, until - time.time())))
    await asyncio.gather(*(_submit_until(gateway, over, latencies, number) for number in range(_CONNECTIONS)))
    return centiles("submit", latencies)["submit_p99_ms"]


async def _submit_until(
    gateway: Gateway, over: "asyncio.Task[None]", latencies: list[float], number: int
) -> None:
    connection = await HttpConnection.open(gateway.port)
    request = post_request("/runs", _NOOP)
    # The connections take turns: submits at the same moment would all meet the same delay.
    await asyncio.sleep(number / _SUBMITS_A_SEC)
    next_at = time.perf_counter()
    while not over.done():
        next_at += _CONNECTIONS / _SUBMITS_A_SEC
        began = time.perf_counter()
        await connection.call(request)
        latencies.append(time.perf_counter() - began)
        await asyncio.sleep(max(0.0, next_at - time.perf_counter()))
    connection.close()


async def _check_queue(config: NatsBackendConfig, tag: str, count: int) -> None:
    """Each run has exactly one job."""
    jobs: Counter[str] = Counter()
    async with connected(config) as connection:
        after = 0
        subject = f"{config.work_subject_prefix}.{tag}"
        while batch := await read_batch(connection, config.work_stream, subject, after=after):
            jobs.update(head_of(message.data).run_id for message in batch)
            after = batch[-1].sequence
    twice = sum(count > 1 for count in jobs.values())
    if len(jobs) != count or twice:
        raise NotMeasured(f"{len(jobs)} of {count} runs are queued, {twice} of them more than once")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="make bench-time", description=__doc__)
    parser.add_argument("--sleepers", type=int, default=SLEEPERS, help=f"default: {SLEEPERS}")
    parser.add_argument("--schedules", type=int, default=SCHEDULES, help=f"default: {SCHEDULES}")
    parser.add_argument("--delayed", type=int, default=DELAYED, help=f"default: {DELAYED}")
    parser.add_argument("--within-sec", type=float, default=_MINUTE, help="all are due within this time")
    parser.add_argument("--idle-sec", type=float, default=_IDLE_SEC, help=f"default: {_IDLE_SEC:g}")
    arguments = parser.parse_args()
    sys.exit(not uvloop.run(main(**vars(arguments))))
