"""Runs that sleep or wait for signals, with a real worker: they hold nothing, and go on once."""

import math
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from msgspec import UNSET, structs

from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.stream_reads import stream_state
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.broker.stores.waits.wait_store import WaitStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.waits.wait_models import WaitRecord, WaitState
from pyoco_server.worker import PyocoNatsWorker
from tests.support.broker.stored_waits import let_expire
from tests.support.running.gateway import RunningGateway
from tests.support.running.waiting_runs import wait_events_of
from tests.support.running.workers import serving_worker
from tests.support.waiting import NEVER_SEC, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def shared_config(shared_config: NatsBackendConfig) -> NatsBackendConfig:
    return replace(shared_config, sweep_interval_sec=0.1, cancel_grace_period_sec=30.0)


@pytest.fixture
def gateway(shared_gateway: RunningGateway) -> RunningGateway:
    return shared_gateway


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def worker(
    shared_config: NatsBackendConfig, shared_gateway: RunningGateway
) -> AsyncIterator[PyocoNatsWorker]:
    async with serving_worker(shared_config) as worker:
        yield worker


def waits_in(gateway: RunningGateway) -> WaitStore:
    return WaitStore(gateway.inside.connection)


async def waits_of(gateway: RunningGateway, run_id: str) -> list[WaitRecord]:
    return [stored.record for stored in await waits_in(gateway).of_run_from_leader(run_id)]


async def wake(gateway: RunningGateway, run: dict[str, Any], number: int = 0) -> None:
    """The time of its sleep has come."""
    await let_expire(waits_in(gateway), run["open_waits"][number]["wait_id"])


async def sleeping(gateway: RunningGateway, flow: str, **fields: Any) -> dict[str, Any]:
    return await gateway.reaches(await gateway.submit(flow, **fields), "WAITING")


async def finding(gateway: RunningGateway, run_id: str, lang: str = "en") -> dict[str, Any]:
    answer = await gateway.http.get(f"/runs/{run_id}/explain", headers={"Accept-Language": lang})
    found: dict[str, Any] = answer.json()["findings"][0]
    return found


async def test_a_sleep_of_an_hour_holds_nothing(
    gateway: RunningGateway, worker: PyocoNatsWorker, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    run = await sleeping(gateway, "nap", params={"notes": str(notes)})
    connection = gateway.inside.connection

    async def nothing_is_held() -> bool:
        queue = await stream_state(connection, connection.config.work_stream)
        return queue.messages == 0 and not worker._services.active_runs

    await eventually(nothing_is_held, describe="no message, no slot")
    assert (run["worker_id"], run["delivery"]) == (None, None)
    assert run["tasks"] == {"lie_down": "SUCCEEDED", "nap": "WAITING", "get_up": "PENDING"}
    [shown] = run["open_waits"]
    [wait] = await waits_of(gateway, run["run_id"])
    assert (shown["kind"], shown["deadline_at"], shown["since"]) == (
        "sleep",
        wait.deadline_at,
        wait.created_at,
    )
    assert run["wait_deadline_at"] == wait.deadline_at
    assert wait.deadline_at - wait.created_at == pytest.approx(3600, abs=5)
    await wake(gateway, run)
    ended = await gateway.ends(run["run_id"])
    assert (ended["status"], ended["attempt"]) == ("COMPLETED", 1)
    assert notes.read_text().split() == ["prepare", "tell", "pay"]
    # Nobody was asked: there are no events, and so no notifications.
    assert await wait_events_of(connection, run["run_id"]) == []


async def test_people_do_not_see_a_sleep(gateway: RunningGateway, tmp_path: Path) -> None:
    run = await sleeping(gateway, "nap", params={"notes": str(tmp_path / "notes")})
    run_id, [shown] = run["run_id"], run["open_waits"]

    async def listed(**query: Any) -> list[dict[str, Any]]:
        found = await gateway.http.get("/waits", params={"run_id": run_id, **query})
        items: list[dict[str, Any]] = found.json()["items"]
        return items

    assert await listed() == []
    [item] = await listed(kind="sleep,signal,event")
    assert (item["kind"], item["deadline_at"], item["task"]) == ("sleep", shown["deadline_at"], "nap")
    for path, body in (
        (f"/waits/{shown['wait_id']}/respond", {"payload": 1}),
        (f"/waits/{shown['wait_id']}/withdraw", {"reason": "wrong"}),
        (f"/waits/{shown['wait_id']}/extend", {"deadline_at": shown["deadline_at"] + 60}),
        (f"/waits/{shown['wait_id']}/reassign", {"assignees": ["ann"]}),
        ("/resume", {"runId": run_id, "payload": 1}),
    ):
        refused = await gateway.http.post(path, json=body)
        assert (refused.status_code, refused.json()["error"]) == (409, "invalid_state"), path
    assert (await gateway.http.get(f"/waits/{shown['wait_id']}")).json()["kind"] == "sleep"
    [in_list] = (await gateway.http.get("/runs", params={"status": "waiting"})).json()
    assert (in_list["run_id"], in_list["open_waits"]) == (run_id, 1)
    told = await finding(gateway, run_id)
    assert told["code"] == "sleeping"
    assert "sleeping until" in told["message"]
    assert "スリープ中" in (await finding(gateway, run_id, "ja"))["message"]
    await gateway.http.post(f"/runs/{run_id}/cancel")
    await gateway.ends(run_id)


async def test_a_sleeper_is_cancelled_at_once(gateway: RunningGateway, tmp_path: Path) -> None:
    run = await sleeping(gateway, "nap", params={"notes": str(tmp_path / "notes")})
    await gateway.http.post(f"/runs/{run['run_id']}/cancel")
    ended = await gateway.ends(run["run_id"])
    assert (ended["status"], ended["tasks"]["nap"]) == ("CANCELLED", "CANCELLED")

    async def is_closed() -> bool:
        return [wait.state for wait in await waits_of(gateway, run["run_id"])] == [WaitState.CANCELLED]

    await eventually(is_closed, describe="the wait is cancelled")


async def test_a_sleep_in_place_is_cancelled_at_once(gateway: RunningGateway, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    run_id = await gateway.submit("sleeps_in_place", params={"notes": str(notes)})
    await eventually(notes.exists, describe="it sleeps")
    await gateway.http.post(f"/runs/{run_id}/cancel")
    assert (await gateway.ends(run_id))["status"] == "CANCELLED"
    assert notes.read_text().split() == ["sleeps"]
    assert await waits_of(gateway, run_id) == []


async def test_each_turn_of_a_loop_is_a_sleep_of_its_own(gateway: RunningGateway) -> None:
    run = await sleeping(gateway, "naps_in_a_loop")
    await wake(gateway, run)

    async def sleeps_again() -> dict[str, Any] | None:
        now = await gateway.get(run["run_id"])
        return now if now["status"] == "WAITING" and now["generation"] == 2 else None

    again = await eventually(sleeps_again, describe="the second sleep")
    assert [wait["name"] for wait in again["open_waits"]] == ["sleep-2"]
    await wake(gateway, again)
    assert (await gateway.ends(run["run_id"]))["status"] == "COMPLETED"
    assert len(await waits_of(gateway, run["run_id"])) == 2


async def test_the_first_of_two_sleeps_at_once_does_not_end_the_other(gateway: RunningGateway) -> None:
    run = await sleeping(gateway, "naps_at_once")
    assert [wait["name"] for wait in run["open_waits"]] == ["sleep", "sleep-2"]
    await wake(gateway, run)

    async def one_is_left() -> dict[str, Any] | None:
        now = await gateway.get(run["run_id"])
        return now if now["status"] == "WAITING" and len(now["open_waits"]) == 1 else None

    left = await eventually(one_is_left, describe="it sleeps on")
    assert left["open_waits"] == run["open_waits"][1:]
    await wake(gateway, left)
    assert (await gateway.ends(run["run_id"]))["status"] == "COMPLETED"


async def test_a_run_that_sleeps_and_asks_waits_for_the_person_first(gateway: RunningGateway) -> None:
    run_id = await gateway.submit("sleep_and_ask")
    run = await gateway.reaches(run_id, "WAITING_HUMAN")
    assert sorted(wait.get("kind", "human") for wait in run["open_waits"]) == ["human", "sleep"]
    assert run["wait_message"] == "Yes or no?"
    await gateway.http.post("/resume", json={"runId": run_id, "payload": "yes"})
    sleeps = await gateway.reaches(run_id, "WAITING")
    assert [wait["kind"] for wait in sleeps["open_waits"]] == ["sleep"]
    await wake(gateway, sleeps)
    assert (await gateway.ends(run_id))["status"] == "COMPLETED"


async def test_a_sleep_does_not_count_against_the_time_limit(gateway: RunningGateway, tmp_path: Path) -> None:
    run = await sleeping(gateway, "nap", params={"notes": str(tmp_path / "notes")}, timeout_sec=60)
    store = RunStore(gateway.inside.connection)
    stored = await store.get_from_leader(run["run_id"])
    assert stored is not None
    snapshot = stored.snapshot
    assert snapshot.waiting_since not in (UNSET, None)
    # As if it had slept for an hour.
    earlier = {
        "start_time": (snapshot.start_time or 0.0) - 3600,
        "waiting_since": run["waiting_since"] - 3600,
    }
    await store.replace(structs.replace(snapshot, **earlier), revision=stored.revision)
    await wake(gateway, run)
    ended = await gateway.ends(run["run_id"])
    assert ended["status"] == "COMPLETED"
    assert ended["waited_sec"] >= 3600


async def test_a_rerun_of_what_failed_does_not_sleep_again(gateway: RunningGateway, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    run = await sleeping(gateway, "sleeps_then_fails", params={"flag": str(flag)})
    await wake(gateway, run)

    async def waits_for_signal() -> dict[str, Any] | None:
        now = await gateway.get(run["run_id"])
        waits = now["open_waits"] if now["status"] == "WAITING" else []
        return now if [wait["kind"] for wait in waits] == ["signal"] else None

    signal = await eventually(waits_for_signal, describe="it waits for the signal")
    assert (await finding(gateway, run["run_id"]))["code"] == "waiting_signal"
    await wake(gateway, signal)
    assert (await gateway.ends(run["run_id"]))["status"] == "FAILED"
    flag.touch()
    answer = await gateway.http.post(f"/runs/{run['run_id']}/rerun", json={"mode": "failed"})
    rerun_id = answer.json()["run_id"]
    # It sleeps no second time. The signal had not come, so that it waits for it again.
    again = await gateway.reaches(rerun_id, "WAITING")
    assert [wait["kind"] for wait in again["open_waits"]] == ["signal"]
    slept = next(wait for wait in await waits_of(gateway, rerun_id) if wait.kind == "sleep")
    assert (slept.state, slept.taken_from) == (WaitState.EXPIRED, run["open_waits"][0]["wait_id"])
    await wake(gateway, again)
    assert (await gateway.ends(rerun_id))["status"] == "COMPLETED"
    # From the start it sleeps.
    answer = await gateway.http.post(f"/runs/{run['run_id']}/rerun", json={"mode": "start"})
    anew = await gateway.reaches(answer.json()["run_id"], "WAITING")
    assert [wait["kind"] for wait in anew["open_waits"]] == ["sleep"]
    await gateway.http.post(f"/runs/{anew['run_id']}/cancel")
    await gateway.ends(anew["run_id"])


async def test_a_run_whose_wait_disappears_asks_again(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await sleeping(gateway, "naps_in_a_loop")
    maintenance = gateway.inside.waits.maintenance
    # Neither by the check that follows its writes, nor by that of everything, which comes in any case.
    monkeypatch.setattr(maintenance, "_next_check_all_at", math.inf)
    await eventually(
        lambda: not maintenance._to_check and not maintenance._to_check_next_round, describe="it was checked"
    )
    wait_id = run["open_waits"][0]["wait_id"]
    await jetstream_api.purge(gateway.inside.connection, "KV_pyoco_waits", f"$KV.pyoco_waits.{wait_id}")

    async def sleeps_again() -> bool:
        return any(wait.state is WaitState.OPEN for wait in await waits_of(gateway, run["run_id"]))

    await eventually(sleeps_again, describe="its task has asked again")
    await gateway.reaches(run["run_id"], "WAITING")
    assert (await gateway.http.post(f"/runs/{run['run_id']}/cancel")).is_success


async def test_everything_is_checked_again_if_that_is_requested_meanwhile(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index may be filled again, after a loss of NATS, while everything is checked by its old state."""
    maintenance = gateway.inside.waits.maintenance
    check_all, checks = maintenance._check_all, 0

    async def counted() -> None:
        nonlocal checks
        checks += 1
        if checks == 1:
            maintenance.check_everything()
        await check_all()

    monkeypatch.setattr(maintenance, "_check_all_sec", NEVER_SEC)
    monkeypatch.setattr(maintenance, "_check_all", counted)
    maintenance.check_everything()
    await eventually(lambda: checks == 2, describe="the second check")
