"""`make bench-latency`: from a submit to the first line of its task on an idle worker, in rounds.

What else the machine does decides the slowest of a hundred runs. `--real-time` gives every thread of the
stack real-time priority (as root), so that other programs take no CPU time from it; `--folder /dev/shm` has
no disk that they use as well.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import uvloop

from benchmarks.comparison.measures import CONNECTIONS, FEW_RUNS, IDLE_EVERY_SEC
from benchmarks.harness.processes import descendants
from benchmarks.peers import PEERS
from benchmarks.peers.peer import Peer

RUNS: Final = 500
LIMIT_MS: Final = 5.0
_LIMIT_SEC: Final = 60.0
_PRIORITY: Final = 5


async def main(peers: Sequence[str], *, rounds: int, folder: Path, real_time: bool) -> bool:
    p99: dict[str, list[float]] = {name: [] for name in peers}
    for number in range(rounds):
        for peer in (peer for peer in PEERS if peer.name in peers):
            latencies = await _latencies(peer, folder, real_time=real_time)
            hundredths = statistics.quantiles(latencies, n=100)
            p99[peer.name].append(hundredths[98])
            p50, p95 = hundredths[49], hundredths[94]
            print(
                f"round {number + 1}  {peer.name:<10} p50 {p50:5.2f} ms   p95 {p95:5.2f} ms   "
                f"p99 {hundredths[98]:5.2f} ms   longest {max(latencies):5.2f} ms",
                flush=True,
            )
    for name, values in p99.items():
        median, best, worst = statistics.median(values), min(values), max(values)
        print(f"{name:<10} p99: median {median:.2f} ms, {best:.2f} to {worst:.2f}")
    met = max(p99.get("ours", [0.0])) < LIMIT_MS
    print(f"{'met' if met else 'MISSED'}: p99 of ours under {LIMIT_MS:g} ms in every round")
    return met


async def _latencies(peer: Peer, parent: Path, *, real_time: bool) -> list[float]:
    with tempfile.TemporaryDirectory(prefix="pyoco-bench-", dir=parent) as name:
        folder, stamps = Path(name), Path(name) / "stamps"
        folder.chmod(0o755)
        async with peer.start(folder, workers=True) as stack, asyncio.timeout(3 * _LIMIT_SEC):
            await stack.submit(runs=FEW_RUNS, connections=CONNECTIONS, limit_sec=_LIMIT_SEC)
            await stack.wait(limit_sec=_LIMIT_SEC)
            with _real_time_priority() if real_time else _usual_priority():
                await stack.stamp(runs=RUNS, every_sec=IDLE_EVERY_SEC, stamps=stamps)
                await stack.wait(limit_sec=_LIMIT_SEC)
        lines = map(str.split, stamps.read_text().splitlines())
        return [(float(started) - float(sent)) * 1e3 for sent, started in lines]


@contextmanager
def _usual_priority() -> Iterator[None]:
    yield


@contextmanager
def _real_time_priority() -> Iterator[None]:
    """Of this process and all that it has started, with their threads; the next peer is started without."""
    own = os.getpid()
    for pid in (own, *descendants(own)):
        _schedule(pid, os.SCHED_RR, _PRIORITY)
    try:
        yield
    finally:
        _schedule(own, os.SCHED_OTHER, 0)


def _schedule(pid: int, policy: int, priority: int) -> None:
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setscheduler(int(thread.name), policy, os.sched_param(priority))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-latency", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often to start each peer (default: 5)")
    parser.add_argument("--peers", default="ours", help="for instance ours,celery,taskiq (default: ours)")
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp"), help="for the data of the brokers")
    parser.add_argument("--real-time", action="store_true", help="with real-time priority; needs root")
    return parser.parse_args()


if __name__ == "__main__":
    options = _options()
    names = options.peers.split(",")
    for each in (peer for peer in PEERS if peer.name in names):
        each.prepare()
    measured = main(names, rounds=options.rounds, folder=options.folder, real_time=options.real_time)
    sys.exit(0 if uvloop.run(measured) else 1)
