"""`make bench-watch`: how soon 2,000 watchers of one gateway receive a change.

Measured from just before the write until the watcher has received its event, over raw sockets, with the
watchers, the writer, the gateway and NATS on this machine.
"""

import argparse
import asyncio
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, cast

import msgspec
import uvloop
from nats.js.kv import KeyValue

from benchmarks.comparison.measures import centiles
from benchmarks.harness.environments import NotMeasured
from benchmarks.harness.processes import cpu_seconds, memory_use
from benchmarks.peers.http_stack import BUCKET, HttpStack
from benchmarks.peers.ours import OURS

TARGET_P99_MS: Final = 250.0
WATCHERS: Final = 2000

_OPENED_AT_ONCE: Final = 100
_STEP_LIMIT_SEC: Final = 30.0
_POLL_SEC: Final = 0.01
# What the writer puts into a snapshot, and a watcher looks for.
_MARK: Final = re.compile(rb'"error":"change-([0-9]+)"')


@dataclass
class Deliveries:
    """When each change was written, and how long each watcher waited for it."""

    written_at: dict[int, float] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    # Changes are numbered on from session to session: what is sent first is the last one's.
    first: int = 0

    def received(self, change: int) -> None:
        if change >= self.first:
            self.seconds.append(time.perf_counter() - self.written_at[change])


class Watcher(asyncio.Protocol):
    """One open stream of events."""

    def __init__(self, path: str, deliveries: Deliveries) -> None:
        self._request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        self._deliveries = deliveries
        self._transport: asyncio.Transport | None = None
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self.begun.done() and b"event: " in data:
            self.begun.set_result(None)
        # An event of this benchmark is short, and comes in one piece.
        for mark in _MARK.finditer(data):
            self._deliveries.received(int(mark[1]))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.begun.done():
            self.begun.set_exception(ConnectionError("the gateway closed a watch"))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


@dataclass(frozen=True)
class Session:
    name: str
    # What each watcher watches; which of the runs are written, and how often in a second.
    paths: Sequence[str]
    written: Sequence[str]
    per_sec: float
    # How many watchers hear of each write.
    received_by: int


async def measure(stack: HttpStack, session: Session, first: int) -> bool:
    deliveries = Deliveries(first=first)
    bucket = await stack.nats_client.jetstream().key_value(BUCKET)
    gateway = stack.processes["gateway"]
    watchers = await _watching(stack.port, session.paths, deliveries)
    try:
        memory, cpu, began = memory_use(gateway), cpu_seconds(gateway), time.perf_counter()
        await _write(bucket, session, deliveries)
        await _until_received(deliveries, len(session.written) * session.received_by)
        busy = (cpu_seconds(gateway) - cpu) / (time.perf_counter() - began)
    finally:
        for watcher in watchers:
            watcher.close()
    figures = centiles("received", deliveries.seconds)
    p50, p99 = figures["received_p50_ms"], figures["received_p99_ms"]
    print(
        f"{session.name:<38} {len(session.written):>5} changes, {session.per_sec:g}/s: "
        f"p50 {p50:6.1f} ms   p99 {p99:6.1f} ms   max {max(deliveries.seconds) * 1e3:6.1f} ms   "
        f"gateway {memory.main_mb:.0f} MB, {busy:.0%} of a core"
    )
    return p99 <= TARGET_P99_MS


async def _watching(port: int, paths: Iterable[str], deliveries: Deliveries) -> list[Watcher]:
    """All of them, each with its first event."""
    watchers, todo = list[Watcher](), list(paths)
    async with asyncio.timeout(_STEP_LIMIT_SEC):
        for start in range(0, len(todo), _OPENED_AT_ONCE):
            some = [Watcher(path, deliveries) for path in todo[start : start + _OPENED_AT_ONCE]]
            await asyncio.gather(*(_connect(each, port) for each in some))
            await asyncio.gather(*(each.begun for each in some))
            watchers += some
    return watchers


async def _connect(watcher: Watcher, port: int) -> None:
    await asyncio.get_running_loop().create_connection(lambda: watcher, "127.0.0.1", port)


async def _write(bucket: KeyValue, session: Session, deliveries: Deliveries) -> None:
    entries = {run_id: await bucket.get(run_id) for run_id in dict.fromkeys(session.written)}
    snapshots = {run_id: msgspec.json.decode(entry.value or b"") for run_id, entry in entries.items()}
    started = time.perf_counter()
    for change, run_id in enumerate(session.written, deliveries.first):
        due = started + (change - deliveries.first) / session.per_sec
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        snapshot: dict[str, Any] = snapshots[run_id]
        snapshot.update(error=f"change-{change}", updated_at=time.time())
        deliveries.written_at[change] = time.perf_counter()
        await bucket.put(run_id, msgspec.json.encode(snapshot))


async def _until_received(deliveries: Deliveries, count: int) -> None:
    limit = time.perf_counter() + _STEP_LIMIT_SEC
    while (received := len(deliveries.seconds)) < count:
        if time.perf_counter() > limit:
            raise NotMeasured(f"{received} of {count} changes were received within {_STEP_LIMIT_SEC:g} s")
        await asyncio.sleep(_POLL_SEC)


async def main(watchers: int) -> bool:
    with tempfile.TemporaryDirectory(prefix="pyoco-bench-") as folder:
        async with OURS.start(Path(folder), workers=False) as stack:
            done = await stack.submit(runs=watchers, connections=16, limit_sec=_STEP_LIMIT_SEC)
            runs, one = done.run_ids, done.run_ids[0]
            sessions = [
                Session(
                    f"{watchers} watchers of as many runs",
                    [f"/runs/{run}/watch" for run in runs],
                    runs,
                    200,
                    1,
                ),
                Session(
                    f"{watchers} watchers of one run",
                    [f"/runs/{one}/watch"] * watchers,
                    [one] * 20,
                    1,
                    watchers,
                ),
                Session(
                    f"{watchers} watchers of one list",
                    ["/runs/watch?status=PENDING"] * watchers,
                    [one] * 20,
                    1,
                    watchers,
                ),
                Session(
                    f"{watchers} watchers of as many lists",
                    [f"/runs/watch?status=PENDING&q=change&updated_after={n}" for n in range(watchers)],
                    [one] * 20,
                    1,
                    watchers,
                ),
            ]
            firsts = accumulate((len(session.written) for session in sessions), initial=0)
            return all([await measure(stack, *each) for each in zip(sessions, firsts, strict=False)])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="make bench-watch", description=__doc__)
    parser.add_argument("--watchers", type=int, default=WATCHERS, help=f"default: {WATCHERS}")
    met = uvloop.run(main(parser.parse_args().watchers))
    print(f"p99 within {TARGET_P99_MS:g} ms: {'met' if met else 'NOT met'}")
    sys.exit(not met)
