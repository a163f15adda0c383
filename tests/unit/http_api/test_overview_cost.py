"""`GET /overview`: responses that requests share, and the cost of counting."""

import asyncio
import sqlite3
import time

import msgspec
import pytest

from pyoco_server.http_api.services import SharedResults
from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.runs.index import index_schema as schema
from pyoco_server.runs.index.statistics.activity import Span, activity_in
from tests.support.samples.summaries import summary


async def test_concurrent_requests_share_one_response(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: clock)
    found: list[int] = []

    async def find() -> bytes:
        found.append(len(found))
        await asyncio.sleep(0)
        return b"%d" % found[-1]

    kept = SharedResults[bytes]()
    assert await asyncio.gather(*(kept.get("key", find) for _ in range(5))) == [b"0"] * 5
    assert await kept.get("another", find) == b"1"
    clock += 1
    assert await kept.get("key", find) == b"2"


async def test_a_failed_computation_is_repeated() -> None:
    async def fail() -> bytes:
        raise ConnectionError

    async def find() -> bytes:
        return b"found"

    kept = SharedResults[bytes]()
    with pytest.raises(ConnectionError):
        await kept.get("key", fail)
    assert await kept.get("key", find) == b"found"


@pytest.mark.parametrize(("flows", "steps_each"), [(10, 15), (2000, 50)])
def test_a_hundred_thousand_runs_are_counted_in_few_steps(flows: int, steps_each: int) -> None:
    """By the steps of SQLite rather than by the clock, which depends on who else is at work."""
    db = sqlite3.connect(":memory:")
    db.executescript(schema.TABLES)
    statuses = ("COMPLETED", "FAILED", "CANCELLED")
    groups = [
        (number, "", f"flow{number // 3}", "default", statuses[number % 3]) for number in range(flows * 3)
    ]
    db.executemany("INSERT INTO groups VALUES (?, ?, ?, ?, ?, 1)", groups)
    db.executemany(
        "INSERT INTO runs VALUES (?, ?, ?, ?, ?, 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
        (
            (number, b"%d" % number, 0, number % len(groups), number % 86_400 + 0.5)
            for number in range(100_000)
        ),
    )
    item = msgspec.json.encode(summary(RunStatus.FAILED).item)
    db.execute("INSERT INTO docs VALUES (0, ?, '')", [item])
    for name in ("by_updated_at", "grouped_by_updated_at"):
        db.execute(f"CREATE INDEX {name} ON runs {schema.INDEXES[name]}")
    steps = 0

    def count() -> None:
        nonlocal steps
        steps += 1000

    db.set_progress_handler(count, 1000)
    found = activity_in(db, None, Span.until(86_400.0, 86_400, 1800), flows=10)
    assert sum(sum(stretch.values()) for stretch in found.ended) == 100_000
    assert 10 <= len(found.failing) <= 20
    assert steps < steps_each * 100_000
