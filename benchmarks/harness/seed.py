"""`python -m benchmarks.harness.seed --runs 1000000`: fill the runs bucket with the runs of a busy year.

Snapshots are written straight into the bucket: no gateway, no worker, no queue. The same seed gives the same
runs, up to their ids.
"""

import argparse
import asyncio
import random
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final
from uuid import UUID

import msgspec
import uvloop

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.broker.streams_and_buckets import ensure_resources
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.run_models import Reason, RunSnapshot, RunStatus, TaskStatus, encode

FLOWS: Final = [f"{what}-{how}" for what in ("orders", "billing", "stock", "churn") for how in (
    "import", "clean", "report", "train", "export", "nightly", "audit", "sync", "mail", "archive"
)]  # fmt: skip
_EVERY_SEC: Final = 30.0
TAGS: Final = ("default", "default", "default", "etl", "etl", "gpu")
WORKERS: Final = [f"worker-{number:02}" for number in range(20)]
LABELS: Final = ("urgent", "backfill", "canary")
_STATUSES: Final = {RunStatus.COMPLETED: 0.92, RunStatus.FAILED: 0.06, RunStatus.CANCELLED: 0.0195}
# The last ones are under way.
_OPEN: Final = {RunStatus.PENDING: 0.0003, RunStatus.RUNNING: 0.0002}
_ERRORS: Final = (
    "ValueError: row {n} of table orders has no customer",
    "TimeoutError: no answer from the warehouse within {n} ms",
    "KeyError: 'column_{n}'",
)
_AT_ONCE: Final = 512


def snapshots(
    count: int,
    *,
    first: int = 0,
    seed: int = 1,
    flows: Sequence[str] = FLOWS,
    every_sec: float = _EVERY_SEC,
) -> Iterator[RunSnapshot]:
    """Runs in the order in which they were written last, the newest of now."""
    chance = random.Random(f"{seed}/{first}")
    begin = time.time() - count * every_sec
    statuses = {**_STATUSES, **_OPEN}
    # A few flows are most of the runs.
    weights = [1 / (rank + 1) for rank in range(len(flows))]
    for number in range(count):
        [status] = chance.choices(list(statuses), list(statuses.values()))
        [flow] = chance.choices(flows, weights)
        yield _snapshot(chance, status, flow, begin + number * every_sec)


def _snapshot(chance: random.Random, status: RunStatus, flow: str, at: float) -> RunSnapshot:
    tag = chance.choice(TAGS)
    begun = status is not RunStatus.PENDING
    waited, lasted = chance.expovariate(1.0), chance.expovariate(0.05)
    over = at if status.terminal else None
    start = (at - lasted if over else at - 1) if begun else None
    task = TaskStatus.FAILED if status is RunStatus.FAILED else TaskStatus.SUCCEEDED
    tasks = {"load": TaskStatus.SUCCEEDED, "transform": TaskStatus.SUCCEEDED, "store": task} if begun else {}
    record = {
        "status": "SUCCEEDED",
        "started_at": start,
        "ended_at": over,
        "output": {"rows": 1200},
        "stdout": "",
    }
    number = chance.randrange(10**6)
    failed = status is RunStatus.FAILED
    return RunSnapshot(
        run_id=str(UUID(int=chance.getrandbits(128), version=4)),
        flow_name=flow,
        status=status,
        params={
            "customer": f"c-{chance.randrange(50_000):05}",
            "source": f"s3://warehouse/{flow}/{number}.parquet",
            "mode": chance.choice(("full", "delta")),
        },
        tasks=tasks,
        heartbeat_at=at,
        updated_at=at,
        tag=tag,
        tags=[tag, chance.choice(LABELS)] if chance.random() < 0.1 else [tag],
        submitted_at=(start if start is not None else at) - waited,
        worker_id=chance.choice(WORKERS) if begun else None,
        attempt=1 if begun else 0,
        start_time=start,
        end_time=over,
        reason=Reason.EXECUTION_ERROR if failed else None,
        error=chance.choice(_ERRORS).format(n=number) if failed else None,
        task_records={name: msgspec.Raw(msgspec.json.encode(record)) for name in tasks},
    )


async def seed_runs(config: NatsBackendConfig, count: int, *, first: int = 0, seed: int = 1) -> float:
    """Write that many runs; how long it took, in seconds."""
    connection = Connection(config, name="benchmark:seed")
    connection.on_connect(lambda: ensure_resources(connection))
    await connection.start()
    began = time.perf_counter()
    try:
        await connection.wait_ready(20)
        runs = snapshots(count, first=first, seed=seed)
        while batch := list(islice(runs, _AT_ONCE)):
            await asyncio.gather(*(_write(connection, run) for run in batch))
    finally:
        await connection.close()
    return time.perf_counter() - began


async def _write(connection: Connection, run: RunSnapshot) -> None:
    subject = f"$KV.{connection.config.runs_kv_bucket}.{run.run_id}"
    await publish_acked(connection, subject, encode(run))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.harness.seed", description=__doc__)
    parser.add_argument("--runs", type=int, default=100_000, help="how many (default: 100000)")
    parser.add_argument("--nats-url", default="nats://127.0.0.1:4222", help="where NATS is")
    parser.add_argument("--seed", type=int, default=1, help="another number gives other runs")
    options = parser.parse_args()
    config = NatsBackendConfig(nats_url=options.nats_url, load_dotenv=False)
    seconds = uvloop.run(seed_runs(config, options.runs, seed=options.seed))
    print(f"{options.runs} runs in {seconds:.1f} s, {options.runs / seconds:,.0f} a second")
    return 0


if __name__ == "__main__":
    sys.exit(main())
