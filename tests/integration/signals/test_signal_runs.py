"""Runs that wait for signals and events, with a worker."""

from typing import Any

import pytest

from pyoco_server.worker import PyocoNatsWorker
from tests.support.running.gateway import RunningGateway
from tests.support.waiting import eventually

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.usefixtures("shared_worker")]


@pytest.fixture
def gateway(shared_gateway: RunningGateway, shared_worker: PyocoNatsWorker) -> RunningGateway:
    return shared_gateway


async def signal(gateway: RunningGateway, run_id: str, data: Any, name: str = "go") -> str:
    response = await gateway.http.post(f"/runs/{run_id}/signals/{name}", json=data)
    assert response.status_code == 202, response.text
    sent: str = response.json()["signal_id"]
    return sent


async def event(gateway: RunningGateway, name: str, data: Any, **fields: Any) -> dict[str, Any]:
    response = await gateway.http.post("/events", json={"name": name, "data": data, **fields})
    assert response.status_code == 202, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def result(gateway: RunningGateway, run_id: str, task: str) -> Any:
    run = await gateway.ends(run_id)
    assert run["status"] == "COMPLETED", run["error"]
    return run["task_records"][task]["output"]


async def test_a_waiting_run_continues_with_a_signal(gateway: RunningGateway) -> None:
    run_id = await gateway.submit("one_signal")
    run = await gateway.reaches(run_id, "WAITING")
    assert [(wait["kind"], wait["topic"]) for wait in run["open_waits"]] == [("signal", "go")]
    await signal(gateway, run_id, {"amount": 3}, name="other")
    sent = await signal(gateway, run_id, {"amount": 5})
    assert await result(gateway, run_id, "one_signal") == {"amount": 5}
    listed = (await gateway.http.get(f"/runs/{run_id}/signals")).json()["items"]
    assert [(each["name"], each["data"]["amount"], each["state"], each["task"]) for each in listed] == [
        ("other", 3, "pending", None),
        ("go", 5, "received", "one_signal"),
    ]
    assert listed[1]["signal_id"] == sent


async def test_signals_before_the_wait_are_kept_and_received_in_order(gateway: RunningGateway) -> None:
    run_id = await gateway.submit("three_signals", tag="slow")
    for number in range(3):
        await signal(gateway, run_id, number)
    assert (await gateway.get(run_id))["status"] == "PENDING", "no worker has its tag"
    run_id = await gateway.submit("three_signals")
    await signal(gateway, run_id, "a")
    await signal(gateway, run_id, "b")
    await gateway.reaches(run_id, "WAITING")
    await signal(gateway, run_id, "c")
    assert await result(gateway, run_id, "three_signals") == ["a", "b", "c"]
    listed = (await gateway.http.get(f"/runs/{run_id}/signals")).json()["items"]
    assert [each["data"] for each in listed] == ["a", "b", "c"]


async def test_two_waits_of_one_name_take_one_signal_each(gateway: RunningGateway) -> None:
    run_id = await gateway.submit("parallel_signals")
    await signal(gateway, run_id, 1)
    await signal(gateway, run_id, 2)
    assert await result(gateway, run_id, "both") == [1, 2]


async def test_a_timeout_returns_the_default_or_raises(gateway: RunningGateway) -> None:
    with_default = await gateway.submit("signal_default")
    without = await gateway.submit("one_signal", params={"timeout_sec": 0.3})
    assert await result(gateway, with_default, "signal_or_default") == "nothing came"
    failed = await gateway.ends(without)
    assert failed["status"] == "FAILED"
    assert "the signal 'go' did not come in time" in failed["error"]


async def test_an_event_reaches_all_runs_that_match(gateway: RunningGateway) -> None:
    first, second, other = [
        await gateway.submit("one_event", params={"order_id": order_id}) for order_id in (7, 7, 8)
    ]
    for run_id in (first, second, other):
        await gateway.reaches(run_id, "WAITING")
    await event(gateway, "order.paid", {"order": {"id": 7}, "by": "card"})
    for run_id in (first, second):
        assert await result(gateway, run_id, "one_event") == {"order": {"id": 7}, "by": "card"}
    assert (await gateway.get(other))["status"] == "WAITING"
    await event(gateway, "order.paid", {"order": {"id": 8}})
    assert await result(gateway, other, "one_event") == {"order": {"id": 8}}


async def test_an_event_counts_between_start_and_wait_and_not_before(gateway: RunningGateway) -> None:
    await event(gateway, "order.paid", {"order": {"id": 21}, "n": 1})
    run_id = await gateway.submit("one_event", params={"order_id": 21})
    await event(gateway, "order.paid", {"order": {"id": 21}, "n": 2})
    assert (await result(gateway, run_id, "one_event"))["n"] == 2


async def test_a_later_wait_of_the_run_receives_the_next_event(gateway: RunningGateway) -> None:
    run_id = await gateway.submit("two_events")
    await event(gateway, "tick", {"n": 1}, id="tick-1")
    assert (await event(gateway, "tick", {"n": 9}, id="tick-1"))["duplicate"]

    async def second_wait() -> bool:
        waits = (await gateway.get(run_id)).get("open_waits") or []
        return bool(waits) and waits[0]["name"] != "tick"

    await eventually(second_wait, describe="it waits for the second event")
    await event(gateway, "tick", {"n": 2})
    assert await result(gateway, run_id, "two_events") == [1, 2]


FLOW_YAML = """
version: 1
flow:
  graph: |
    signalled >> told
tasks:
  signalled:
    use: pyoco/signal
    inputs:
      name: go
  told:
    use: pyoco/event
    inputs:
      name: order.paid
      match: {"/order/id": 77}
"""


async def test_a_flow_yaml_waits_for_a_signal_and_an_event(gateway: RunningGateway) -> None:
    response = await gateway.submit_yaml(FLOW_YAML)
    assert response.status_code == 200, response.text
    run_id = response.json()["run_id"]
    await gateway.reaches(run_id, "WAITING")
    await signal(gateway, run_id, {"amount": 5})
    # It counts although the task has not begun.
    await event(gateway, "order.paid", {"order": {"id": 77}})
    assert await result(gateway, run_id, "told") == {"order": {"id": 77}}
    assert await result(gateway, run_id, "signalled") == {"amount": 5}
