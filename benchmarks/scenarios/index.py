"""`make bench-index`: the cost of a list of runs with 100,000 and with 1,000,000 runs in the bucket.

A page of 50 is asked for over HTTP, one request at a time, kind by kind; the bucket is filled by
`benchmarks.harness.seed`. Times are the client's: the NATS request is in them that makes a list up to date.

Statistics of flows and of periods are queried in an index of their own, with as many runs of 100 flows in the
last 60 days: requests for them share a response for a while, and the bucket has the runs of a year.
"""

import argparse
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import uvloop

from benchmarks.comparison.measures import centiles
from benchmarks.harness.gateways import started
from benchmarks.harness.http_load import HttpConnection, get_request
from benchmarks.harness.processes import memory_use
from benchmarks.harness.seed import WORKERS, seed_runs, snapshots
from pyoco_server.broker.embedded.embedded_server import EmbeddedNats
from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.routes.monitoring.statistics_routes import MOST_NAMES
from pyoco_server.records.runs.run_models import encode
from pyoco_server.runs.index.index_schema import SCHEMA
from pyoco_server.runs.index.index_writer import IndexWriter, RunWrite
from pyoco_server.runs.index.run_summary import summary_of
from pyoco_server.runs.index.sqlite.index_file import IndexFile
from pyoco_server.runs.index.statistics.flow_statistics import history_of_flow, statistics_by_flow
from pyoco_server.runs.index.statistics.period_statistics import PERIODS, period_statistics

SIZES: Final = (100_000, 1_000_000)
PAGE_P99_MS: Final = 20.0
METRICS_MS: Final = 50.0
STATISTICS_MS: Final = 50.0
PERIODS_MS: Final = 100.0
MEMORY_MB: Final = 500.0
RESTART_SEC: Final = 5.0

_REQUESTS: Final = 300
_FLOWS: Final = [f"flow-{number:03}" for number in range(100)]
_AT_ONCE: Final = 512
_DAY: Final = 86400.0
# The seeded runs that are under way have no worker; what the sweep does about them is not measured.
_SETTINGS: Final = {"PYOCO_SWEEP_INTERVAL_SEC": "60"}

Query = dict[str, str]


def kinds() -> dict[str, Query]:
    """What people ask for."""
    now = time.time()
    return {
        "newest": {},
        "failed": {"status": "FAILED"},
        "completed, longest first": {"status": "COMPLETED", "sort": "duration"},
        "running or pending, oldest first": {
            "status": "RUNNING,PENDING",
            "sort": "start_time",
            "order": "asc",
        },
        "flow": {"flow": "stock-train"},
        "flow, failed, by submission": {"flow": "stock-train", "status": "FAILED", "sort": "submitted_at"},
        "tag, by end": {"tag": "gpu", "sort": "end_time"},
        "label": {"tag": "canary"},
        "label, shortest first": {"tag": "canary", "sort": "duration", "order": "asc"},
        "worker": {"worker": WORKERS[3]},
        "worker, failed, longest first": {"worker": WORKERS[3], "status": "FAILED", "sort": "duration"},
        "last day": {"updated_after": str(now - _DAY)},
        "submitted long ago": {"submitted_before": str(now - 30 * _DAY)},
        "submitted long ago, failed": {"submitted_before": str(now - 30 * _DAY), "status": "FAILED"},
        "by flow name": {"sort": "flow_name", "order": "asc"},
        "by status": {"sort": "status"},
        "text, rare": {"q": "c-04711"},
        "text, frequent": {"q": "warehouse"},
        "text, in errors": {"q": "timeouterror"},
        "text and flow": {"q": "delta", "flow": "churn-archive"},
        "text, nowhere": {"q": "no such thing"},
        "failed, with total": {"status": "FAILED", "total": "true"},
    }


async def measure(nats_url: str, folder: Path, size: int) -> bool:
    """Whether all targets are met."""
    shutil.rmtree(folder / ".pyoco", ignore_errors=True)
    async with started(nats_url, folder, **_SETTINGS) as gateway:
        print(f"  filled in {gateway.ready_sec:.1f} s, {size / gateway.ready_sec:,.0f} runs a second")
    async with started(nats_url, folder, **_SETTINGS) as gateway:
        print(f"  restarted with its index: ready after {gateway.ready_sec:.2f} s")
        worst = await _ask_all(gateway.port)
        metrics = await _metrics(gateway.port)
        memory = memory_use([gateway.pid]).main_mb
    size_mb = sum(path.stat().st_size for path in (folder / ".pyoco/index").iterdir()) / 1e6
    print(f"  gateway memory {memory:.0f} MB, index file {size_mb:.0f} MB")
    statistics, periods = _statistics(size)
    verdicts = {
        f"every p99 under {PAGE_P99_MS:g} ms": worst < PAGE_P99_MS,
        f"metrics under {METRICS_MS:g} ms": metrics < METRICS_MS,
        f"statistics of flows under {STATISTICS_MS:g} ms": statistics < STATISTICS_MS,
        f"statistics of periods under {PERIODS_MS:g} ms": periods < PERIODS_MS,
        f"memory under {MEMORY_MB:g} MB": memory < MEMORY_MB,
        f"restart under {RESTART_SEC:g} s": gateway.ready_sec < RESTART_SEC,
    }
    for target, met in verdicts.items():
        print(f"  {'met' if met else 'MISSED'}: {target}")
    return all(verdicts.values())


async def _ask_all(port: int) -> float:
    """The largest p99, in milliseconds."""
    connection = await HttpConnection.open(port)
    worst = 0.0
    for name, query in kinds().items():
        figures, first = await _ask(connection, f"/runs?{urlencode(query)}")
        worst = max(worst, figures["page_p99_ms"])
        _print_times(name, figures, first)
    connection.close()
    return worst


def _statistics(size: int) -> tuple[float, float]:
    """The largest p99 of the queries about flows, and of those about periods, in milliseconds."""
    with tempfile.TemporaryDirectory(prefix="pyoco-bench-flows-") as folder:
        file = IndexFile(Path(folder), SCHEMA)
        writer = IndexWriter(file.writer())
        writer.begin("a bucket")
        runs = enumerate(snapshots(size, flows=_FLOWS, every_sec=60 * _DAY / size), start=1)
        while batch := list(islice(runs, _AT_ONCE)):
            writes = [RunWrite(run.run_id, number, b"", summary_of(encode(run))) for number, run in batch]
            writer.apply(writes, upto=writes[-1].revision)
        writer.complete()
        writer.write_rollups()
        db = file.reader()
        of_flows: dict[str, Callable[[], object]] = {
            f"{len(_FLOWS)} flows, 24 h": lambda: statistics_by_flow(db, time.time()),
            "one flow, 24 h, 7 d and 30 d": lambda: history_of_flow(db, _FLOWS[0], time.time()),
        }
        of_periods: dict[str, Callable[[], object]] = {
            **{f"{len(_FLOWS)} flows, two periods of {name}": _period_query(db, name) for name in PERIODS},
            "one flow, two periods of 7d": _period_query(db, "7d", _FLOWS[0]),
        }
        worst = _worst(of_flows), _worst(of_periods)
        db.close()
        writer.close()
        file.release()
    return worst


def _period_query(db: sqlite3.Connection, period: str, flow: str | None = None) -> Callable[[], object]:
    return lambda: period_statistics(db, period, time.time(), most=MOST_NAMES, flow=flow)


def _worst(queries: dict[str, Callable[[], object]]) -> float:
    """The largest p99, in milliseconds."""
    worst = 0.0
    for name, query in queries.items():
        seconds = [_timed(query) for _ in range(_REQUESTS)]
        figures = centiles("page", seconds)
        worst = max(worst, figures["page_p99_ms"])
        _print_times(name, figures, seconds[0])
    return worst


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _print_times(name: str, figures: dict[str, float], first: float) -> None:
    p50, p99 = figures["page_p50_ms"], figures["page_p99_ms"]
    print(f"  {name:<36} p50 {p50:6.1f} ms   p99 {p99:6.1f} ms   first {first * 1e3:6.1f} ms")


async def _metrics(port: int) -> float:
    """The p99, in milliseconds."""
    connection = await HttpConnection.open(port)
    figures, first = await _ask(connection, "/metrics")
    connection.close()
    _print_times("/metrics", figures, first)
    return figures["page_p99_ms"]


async def _ask(connection: HttpConnection, path: str) -> tuple[dict[str, float], float]:
    request = get_request(path)
    seconds: list[float] = []
    for _ in range(_REQUESTS):
        began = time.perf_counter()
        await connection.call(request)
        seconds.append(time.perf_counter() - began)
    return centiles("page", seconds), seconds[0]


async def run(sizes: Sequence[int]) -> int:
    with tempfile.TemporaryDirectory(prefix="pyoco-bench-index-") as name:
        folder = Path(name)
        async with EmbeddedNats(folder / "nats") as server:
            config = NatsBackendConfig(nats_url=server.url, load_dotenv=False)
            seeded, all_met = 0, True
            for size in sizes:
                seconds = await seed_runs(config, size - seeded, first=seeded)
                print(f"{size:,} runs ({size - seeded:,} of them seeded in {seconds:.0f} s)")
                seeded = size
                all_met &= await measure(server.url, folder, size)
    return 0 if all_met else 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scenarios.index", description=__doc__)
    parser.add_argument("--runs", type=int, nargs="+", default=list(SIZES), help="sizes, growing")
    options = parser.parse_args()
    return uvloop.run(run(options.runs))


if __name__ == "__main__":
    sys.exit(main())
