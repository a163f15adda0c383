"""The audit of workflow events: the JSONL file, several gateways, and rows that are removed or unreadable."""

import asyncio
import json
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.config import NatsBackendConfig
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.workflow_events import put_action, save_template, send, started, summary
from tests.support.waiting import eventually


def lines(path: Path) -> list[dict[str, Any]]:
    """Those that are written to their end."""
    whole = path.read_text().rpartition("\n")[0] if path.exists() else ""
    return [json.loads(line) for line in whole.splitlines()]


async def has_lines(path: Path, count: int) -> list[dict[str, Any]]:
    async def there() -> list[dict[str, Any]] | None:
        found = await asyncio.to_thread(lines, path)
        return found if len(found) >= count else None

    found: list[dict[str, Any]] = await eventually(there, describe=f"{path.name} has {count} lines")
    assert len(found) == count
    return found


async def test_the_file_has_a_line_for_each_row_and_is_made_again(config: NatsBackendConfig) -> None:
    path = Path(config.audit_file)
    async with running_gateway(config) as gateway:
        await put_action(gateway)
        await save_template(gateway, "t")
        assert not path.parent.exists(), "nothing is created before the first row"
        answer = await started(gateway, template_id="t", idempotency_key="k", year=2026, month=3)
        await send(gateway, template_id="t", idempotency_key="k", year=2026, month=3)
        await send(gateway, template_id="unknown", source="erp")
        first, second, third = await has_lines(path, 3)
        assert set(first) == {
            *("ts", "ym", "year", "month", "event_type", "action", "status", "actor", "source", "run_id"),
            *("details", "id", "tenant_id", "sequence"),
        }
        assert (first["ym"], first["year"], first["month"]) == ("2026-03", 2026, 3)
        assert (first["event_type"], first["status"]) == ("workflow_event", "success")
        assert first["run_id"] == second["run_id"] == answer["run_id"]
        assert (second["status"], second["details"]["duplicate"]) == ("skipped", True)
        assert (third["status"], third["source"], third["ym"]) == ("rejected", "erp", third["ts"][:7])
        assert set(first["actor"]) == {"channel", "id", "ip", "user_agent"}
        assert first["actor"]["ip"] == "127.0.0.1"
        assert {"template_id", "template_name", "event_name", "source", "idempotency_key"} <= set(
            first["details"]
        )

        path.unlink()
        gateway.inside.workflow_events.audit_file.wake()
        assert await has_lines(path, 3) == [first, second, third]
    # A line that was not written to its end.
    with path.open("ab") as file:
        file.write(b'{"ts": "2026')
    async with running_gateway(config) as gateway:
        await send(gateway, template_id="unknown")
        assert (await has_lines(path, 4))[:3] == [first, second, third]


async def test_two_gateways_with_one_folder_write_each_row_once(config: NatsBackendConfig) -> None:
    path = Path(config.audit_file)
    async with AsyncExitStack() as stack:
        both = [await stack.enter_async_context(running_gateway(config)) for _ in range(2)]
        await put_action(both[0])
        await save_template(both[0], "t", year=2026, month=4)
        for n in range(20):
            await started(both[n % 2], template_id="t", idempotency_key=f"k{n}")
        found = await has_lines(path, 20)
        assert [line["details"]["idempotency_key"] for line in found] == [f"k{n}" for n in range(20)]
        months = [await summary(gateway, "2026-04") for gateway in both]
        assert [month["total"] for month in months] == [20, 20]


async def test_a_folder_that_cannot_be_written_stops_nothing(
    config: NatsBackendConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file_in_the_way = tmp_path / "occupied"
    file_in_the_way.write_text("")
    unwritable = replace(config, audit_file=str(file_in_the_way / "audit.jsonl"))
    async with running_gateway(unwritable) as gateway:
        await put_action(gateway)
        await save_template(gateway, "t", year=2026, month=4)
        await started(gateway, template_id="t")
        assert (await summary(gateway, "2026-04"))["total"] == 1
        await eventually(lambda: "the audit file cannot be written" in caplog.text, describe="it is reported")


async def test_rows_that_the_stream_has_removed_leave_the_summary(gateway: RunningGateway) -> None:
    await put_action(gateway)
    await save_template(gateway, "t", year=2026, month=4)
    for n in range(3):
        await started(gateway, template_id="t", idempotency_key=f"k{n}")
    assert (await summary(gateway, "2026-04"))["total"] == 3
    connection: Connection = gateway.inside.connection
    await jetstream_api.purge(connection, connection.config.audit_stream, "pyoco.audit.>")

    async def gone() -> bool:
        return bool((await summary(gateway, "2026-04"))["total"] == 0)

    await eventually(gone, describe="the rows are gone")


async def test_a_row_that_cannot_be_read_hides_no_other(gateway: RunningGateway) -> None:
    connection = gateway.inside.connection
    await publish_acked(connection, "pyoco.audit.workflow_event.=.broken", b"{")
    await put_action(gateway)
    await save_template(gateway, "t", year=2026, month=4)
    await started(gateway, template_id="t")
    assert (await summary(gateway, "2026-04"))["total"] == 1


async def test_the_summary_of_a_month_is_read_while_rows_are_written(gateway: RunningGateway) -> None:
    """As of the request: what was accepted before it is in it."""
    await put_action(gateway)
    await save_template(gateway, "t", year=2026, month=4)
    for n in range(10):
        await started(gateway, template_id="t", idempotency_key=f"k{n}")
        month = await summary(gateway, "2026-04", recent_limit=3)
        assert month["total"] == n + 1
        assert len(month["recent"]) == min(3, n + 1)
    times = [row["at"] for row in month["recent"]]
    assert times == sorted(times, reverse=True)
    assert month["first_at"] <= times[-1] <= times[0] == month["last_at"]
