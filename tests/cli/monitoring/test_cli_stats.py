"""`pyoco-client stats`."""

import time

from pyoco_server.records.runs.run_models import RunSnapshot, RunStatus
from tests.support.broker.connections import SyncConnection
from tests.support.broker.stored_runs import ended, write_many
from tests.support.commands import ClientCommand

DAY = 86_400.0


def run_of(took: float, *, days_ago: float, status: RunStatus = RunStatus.COMPLETED) -> RunSnapshot:
    at = time.time() - days_ago * DAY - 60
    times = {"start_time": at - took, "submitted_at": at - took - 2}
    return ended(status, at=at, flow_name="slowing", tag="slow", **times)


def row(table: str, name: str) -> str:
    [found] = [line for line in table.splitlines() if line.startswith(name)]
    return " ".join(found.split())


def test_a_week_is_shown_beside_the_one_before(
    client: ClientCommand, shared_nats_connection: SyncConnection
) -> None:
    runs = [
        *(run_of(20.0, days_ago=day) for day in (1, 2, 3)),
        run_of(20.0, days_ago=4, status=RunStatus.FAILED),
        *(run_of(10.0, days_ago=day) for day in (8, 9)),
    ]
    shared_nats_connection.do(lambda connection: write_many(connection, runs))
    found = client.json("stats", "--period", "7d", "--flow", "slowing")
    assert (found["current"]["completed"], found["previous"]["completed"]) == (3, 2)

    table = client.table("stats", "--period", "7d", "--flow", "slowing", columns=140)
    assert row(table, "Ended runs") == "Ended runs 4 2"
    assert row(table, "Succeeded") == "Succeeded 75.0% 100.0% -25.0 points"
    assert row(table, "Duration p50").endswith("s +100%")
    assert row(table, "Queue time p95").endswith("about the same")
    assert row(table, "slowing").startswith("slowing 4 2 1 75.0%")
    assert row(table, "slow ").endswith("0/0")


def test_a_flow_without_runs_has_no_figures(client: ClientCommand) -> None:
    table = client.table("stats", "--flow", "nowhere")
    assert row(table, "Ended runs") == "Ended runs 0 0"
    assert row(table, "Duration p50") == "Duration p50 - -"


def test_an_unknown_period_is_refused(client: ClientCommand) -> None:
    assert "'2d' is not one of '1h', '24h', '7d', '30d'" in client.error("stats", "--period", "2d")
