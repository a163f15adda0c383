"""A part of `make bench-events`: a month of audit rows, its summary, and its file that is made again."""

import asyncio
import random
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.comparison.measures import centiles
from benchmarks.harness.direct_writes import connected, for_each
from benchmarks.harness.environments import NotMeasured
from benchmarks.harness.gateways import Gateway, started
from benchmarks.harness.http_load import HttpConnection, RequestRefused, get_request
from benchmarks.harness.processes import cpu_seconds
from pyoco_server.broker.embedded.embedded_server import EmbeddedNats
from pyoco_server.broker.stores.triggers.event_audit_store import EventAuditStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import EventInvalid
from pyoco_server.records.triggers.workflow_event_models import (
    AuditRow,
    EventActor,
    EventDetails,
    EventStatus,
)
from pyoco_server.triggers.workflow_events.event_audit_writer import new_row
from pyoco_server.triggers.workflow_events.event_reasons import DUPLICATE, EventFailure, reason_of

P99_MS: Final = 50.0
RECENT: Final = (20, 200)

_YEAR: Final = 2026
_MONTH: Final = 10
_READERS: Final = 4
_READS: Final = 4000
_NO_MONTH: Final = reason_of(EventInvalid())
_POLL_SEC: Final = 0.05
_LIMIT_SEC: Final = 120.0


async def measure_month(folder: Path, rows: int) -> dict[str, bool]:
    """Whether each target is met."""
    file = folder / "audit.jsonl"
    async with EmbeddedNats(folder / "nats") as server:
        await _seed(NatsBackendConfig(nats_url=server.url, load_dotenv=False), rows)
        async with started(server.url, folder, PYOCO_AUDIT_FILE=str(file)) as gateway:
            await _until_lines(file, rows)
            await _until_counted(gateway, rows)
            p99_ms = [await _read(gateway, rows, recent) for recent in RECENT]
            again_sec = await _made_again(file, rows)
    verdicts = {
        f"p99 of a summary of {rows:,} rows with {recent} recent ones under {P99_MS:g} ms ({found:.1f} ms)": (
            found < P99_MS
        )
        for recent, found in zip(RECENT, p99_ms, strict=True)
    }
    return {**verdicts, f"the JSONL file is made again after it was deleted ({again_sec:.1f} s)": True}


async def _seed(config: NatsBackendConfig, rows: int) -> None:
    chance = random.Random(1)
    began = time.time()
    async with connected(config) as connection:
        store = EventAuditStore(connection)
        await for_each(store.publish, (_row(chance, number, began - rows + number) for number in range(rows)))
    print(f"{rows:,} audit rows written in {time.time() - began:.1f} s")


def _row(chance: random.Random, number: int, at: float) -> AuditRow:
    reason: EventFailure | None = chance.choices((None, DUPLICATE, _NO_MONTH), (90, 8, 2))[0]
    details = EventDetails(
        template_id=f"template-{number % 50}",
        template_name=f"Template {number % 50}",
        event_name="month_closed",
        source="erp",
        idempotency_key=f"erp-2026-10-{number}",
        reason_class=None if reason is None else reason.reason_class,
        reason_code=None if reason is None else reason.code,
        retry_advice=None if reason is None else reason.advice,
        duplicate=reason is DUPLICATE,
    )
    status = EventStatus.SUCCESS if reason is None else reason.status
    actor = EventActor(ip="192.0.2.1", user_agent="erp/1.0")
    return new_row(
        at=at, year=_YEAR, month=_MONTH, action="workflow_event", status=status, actor=actor, details=details
    )


async def _read(gateway: Gateway, rows: int, recent: int) -> float:
    """The p99 of a summary in milliseconds, for several clients at once."""
    request = get_request(f"/api/workflow-events/summary?ym={_YEAR}-{_MONTH}&recent_limit={recent}")
    left = iter(range(_READS))
    latencies: list[float] = []
    before, began = cpu_seconds([gateway.pid]), time.perf_counter()

    async def read() -> None:
        connection = await HttpConnection.open(gateway.port)
        for _ in left:
            sent_at = time.perf_counter()
            answer = await connection.call(request)
            latencies.append(time.perf_counter() - sent_at)
        connection.close()
        if (found := msgspec.json.decode(answer)["total"]) != rows:
            raise NotMeasured(f"the summary counts {found} of {rows} rows")

    await asyncio.gather(*(read() for _ in range(_READERS)))
    took = time.perf_counter() - began
    found = centiles("summary", latencies)
    share = (cpu_seconds([gateway.pid]) - before) / took
    print(
        f"{_READS:,} summaries with {recent} recent rows, {_READERS} at once, {_READS / took:,.0f} a second: "
        f"p50 {found['summary_p50_ms']:.1f} ms, p99 {found['summary_p99_ms']:.1f} ms, "
        f"max {max(latencies) * 1e3:.0f} ms; {share:.0%} of a core"
    )
    return found["summary_p99_ms"]


async def _until_counted(gateway: Gateway, rows: int) -> None:
    """The index of the audit is filled."""
    connection = await HttpConnection.open(gateway.port)
    request = get_request(f"/api/workflow-events/summary?ym={_YEAR}-{_MONTH}")
    async with asyncio.timeout(_LIMIT_SEC):
        while True:
            with suppress(RequestRefused):
                if msgspec.json.decode(await connection.call(request))["total"] == rows:
                    break
            await asyncio.sleep(_POLL_SEC)
    connection.close()


async def _made_again(file: Path, rows: int) -> float:
    """How long it takes from the deletion to the last row, in seconds."""
    before = sorted(file.read_bytes().splitlines())
    file.unlink()
    began = time.perf_counter()
    await _until_lines(file, rows)
    took = time.perf_counter() - began
    if sorted(file.read_bytes().splitlines()) != before:
        raise NotMeasured("the file that was made again has other lines")
    return took


async def _until_lines(file: Path, rows: int) -> None:
    async with asyncio.timeout(_LIMIT_SEC):
        while not file.exists() or file.read_bytes().count(b"\n") < rows:
            await asyncio.sleep(_POLL_SEC)
