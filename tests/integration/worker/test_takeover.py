"""The runs of a worker that died are handed over long before AckWait, which never elapses here."""

import asyncio
import logging
import signal
import time
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from msgspec import structs

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.client.subscriptions import RenewableSubscription
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsForbidden
from pyoco_server.records.workers.worker_models import WorkerState
from pyoco_server.runs.lifecycle.ownership import RunEnded, RunTaken
from pyoco_server.runs.takeover import lost_worker_loop
from pyoco_server.worker import PyocoNatsWorker
from pyoco_server.worker.session import presence
from tests.flows import basics
from tests.integration.worker.conftest import OwnQueue
from tests.support.broker.worker_records import worker_is
from tests.support.inspection import claimed_by, started_pid, worker_record
from tests.support.places import FLOWS
from tests.support.programs import WORKER, running
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.waiting import LIMIT_SEC, NEVER_SEC, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def shared_config(shared_config: NatsBackendConfig) -> Iterator[NatsBackendConfig]:
    """A dead worker is found soon; what is slow on this machine stays connected anyway."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lost_worker_loop, "_PROBE_EVERY_SEC", 0.05)
        yield replace(shared_config, worker_lost_after_sec=0.2)


@asynccontextmanager
async def killable_worker(queue: OwnQueue, worker_id: str, **settings: Any) -> AsyncIterator[PyocoNatsWorker]:
    """One that the gateway has seen connected, and that takes no run by itself."""
    async with queue.idle_worker(basics.noop_flow, worker_id, **settings) as worker:
        await is_seen(queue.gateway, worker_id)
        yield worker


async def is_seen(gateway: RunningGateway, worker_id: str) -> None:
    """Only a worker that a gateway has seen connected can be lost."""
    processes = gateway.inside.takeover._workers._processes
    await eventually(
        lambda: [each for each in processes.values() if each.worker_id == worker_id and each.was_connected],
        describe=f"the gateway has seen {worker_id}",
    )


async def die(worker: PyocoNatsWorker) -> None:
    """As a killed process does: nothing is stored, nothing is returned, the connection is closed."""
    await worker._services.connection.close()


@contextmanager
def disconnected(gateway: RunningGateway, worker: PyocoNatsWorker) -> Iterator[None]:
    """NATS does not find its subscription, as while it connects again."""
    probe = gateway.inside.takeover._probe
    find = probe.disconnected

    async def find_more(instance_ids: Collection[str]) -> set[str]:
        return {worker._services.instance_id, *await find(instance_ids)}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probe, "disconnected", find_more)
        yield


# Its heartbeats would show that it is alive.
SILENT: dict[str, Any] = {
    "worker_heartbeat_interval_sec": NEVER_SEC,
    "worker_disconnect_timeout_sec": 2 * NEVER_SEC,
}


async def is_handed_over(gateway: RunningGateway, run_id: str) -> dict[str, Any]:
    async def run() -> dict[str, Any] | None:
        run = await gateway.get(run_id)
        return run if "handed_over_at" in run else None

    return await eventually(run, describe="the run is handed over")


# Longer than an unseen worker takes from its record to its first claim, if it does not wait.
UNSEEN_SEC = 0.5


async def test_a_worker_takes_no_run_before_a_gateway_has_seen_it(
    own_queue: OwnQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it was killed before, nobody could tell it from one that gateways cannot see."""
    gateway = own_queue.gateway
    probe, may_look = gateway.inside.takeover._probe, asyncio.Event()
    look = probe.disconnected

    async def look_later(instance_ids: Collection[str]) -> set[str]:
        await may_look.wait()
        return await look(instance_ids)

    monkeypatch.setattr(probe, "disconnected", look_later)
    monkeypatch.setattr(presence, "_SEEN_WITHIN_SEC", NEVER_SEC)
    run_id = await own_queue.submit("noop")

    async def claim_and_die() -> None:
        async with own_queue.idle_worker(
            basics.noop_flow, "early", worker_lost_after_sec=NEVER_SEC, **SILENT
        ) as worker:
            await claimed_by(worker)
            await die(worker)

    working = asyncio.create_task(claim_and_die())
    try:
        await eventually(
            lambda: [
                each
                for each in gateway.inside.takeover._workers._processes.values()
                if each.worker_id == "early"
            ],
            describe="its record is stored",
        )
        await asyncio.wait({working}, timeout=UNSEEN_SEC)
    finally:
        may_look.set()
        await working
    await is_handed_over(gateway, run_id)
    async with own_queue.worker("heir"):
        run = await gateway.ends(run_id)
    assert (run["status"], run["worker_id"], run["attempt"]) == ("COMPLETED", "heir", 2)


async def test_a_worker_that_no_gateway_can_see_works_and_is_never_lost(
    own_queue: OwnQueue, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its account does not import the subject of the probes, for example."""
    caplog.set_level(logging.INFO)
    gateway = own_queue.gateway

    def unseen(connection: Connection, instance_id: str, _: object) -> RenewableSubscription:
        return RenewableSubscription(connection, lambda _: None, f"elsewhere.{instance_id}")

    monkeypatch.setattr(presence, "probed_subscription", unseen)
    async with own_queue.idle_worker(basics.noop_flow, "unseen", **SILENT) as worker:
        assert [
            each for each in caplog.messages if "worker unseen takes runs: no gateway has seen it" in each
        ]
        run_id = await own_queue.submit("noop")
        await claimed_by(worker)
        instance_id, workers = worker._services.instance_id, gateway.inside.takeover._workers
        await eventually(lambda: instance_id not in workers.probed, describe="it is not probed any more")
        assert not workers.is_lost(instance_id)
        assert "handed_over_at" not in await gateway.get(run_id)


async def test_a_worker_that_starts_during_a_probe_is_not_seen_by_it(
    own_queue: OwnQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has asked for it. If it counted as seen, one that gateways cannot see would lose its runs."""
    takeover = own_queue.gateway.inside.takeover
    look, instance_id = takeover._probe.disconnected, uuid4().hex
    record = {"worker_id": "late", "instance_id": instance_id, "state": "IDLE", "last_seen_at": time.time()}
    results: list[bool] = []

    async def look_while_it_starts(instance_ids: Collection[str]) -> set[str]:
        if process := takeover._workers._processes.get(instance_id):
            results.append(process.was_connected)
        found = await look(instance_ids)
        takeover._on_record(msgspec.json.encode(record))
        return found

    async with killable_worker(own_queue, "probed", **SILENT):
        monkeypatch.setattr(takeover._probe, "disconnected", look_while_it_starts)
        await eventually(lambda: results, describe="it is probed itself")
    assert results[0] is False


async def test_a_gateway_that_starts_later_sees_the_workers_that_are_there(
    own_queue: OwnQueue, tmp_path: Path
) -> None:
    config = replace(own_queue.gateway.inside.config, index_dir=str(tmp_path / "index"), **SILENT)
    # Without a heartbeat, its stored record is all there is.
    async with killable_worker(own_queue, "earlier", **SILENT), running_gateway(config) as later:
        await is_seen(later, "earlier")


async def test_a_connect_that_is_given_up_leaves_no_worker(
    own_queue: OwnQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be shown as idle, with its flows, and take no run."""
    waits = asyncio.Event()

    async def never_seen(_: presence.Presence) -> None:
        waits.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(presence.Presence, "wait_seen", never_seen)
    others = asyncio.all_tasks()
    connecting = asyncio.create_task(
        PyocoNatsWorker.connect(
            own_queue.gateway.inside.config, lambda _: basics.noop_flow, "given-up", [own_queue.tag]
        )
    )
    await waits.wait()
    connecting.cancel()
    await asyncio.wait({connecting})
    assert connecting.cancelled()
    assert (await worker_record(own_queue.gateway, "given-up")).state is WorkerState.STOPPED_GRACEFUL
    left = [each for each in asyncio.all_tasks() - others if "worker:given-up" in each.get_name()]
    assert not left


async def test_a_new_gateway_does_not_probe_disconnected_workers(own_queue: OwnQueue, tmp_path: Path) -> None:
    """Records are kept for days: there may be thousands."""
    config = replace(
        own_queue.gateway.inside.config,
        index_dir=str(tmp_path / "index"),
        worker_heartbeat_interval_sec=0.01,
        worker_disconnect_timeout_sec=0.02,
    )
    async with killable_worker(own_queue, "long-dead", **SILENT) as worker:
        await die(worker)
    record = await worker_record(own_queue.gateway, "long-dead")
    await eventually(lambda: time.time() - record.last_seen_at > 0.02, describe="it was silent for so long")
    async with running_gateway(config) as later:
        takeover = later.inside.takeover
        await eventually(lambda: takeover._connected_since, describe="the records were read")
        assert worker._services.instance_id not in takeover._workers.probed


async def test_a_killed_worker_is_shown_and_its_run_is_continued_by_another(
    own_queue: OwnQueue, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gateway, release, marker = own_queue.gateway, tmp_path / "release", tmp_path / "started"
    settings = {
        "PYOCO_NATS_URL": gateway.inside.config.nats_url,
        "PYOCO_WORKER_HEARTBEAT_INTERVAL_SEC": "0.2",
    }
    arguments = ("--flows", str(FLOWS), "--worker-id", "killed", "--tag", own_queue.tag)
    before = gateway.inside.takeover.counts.get("running", 0)
    with running(WORKER, *arguments, cwd=tmp_path, **settings) as (worker, _):
        run_id = await own_queue.submit("waiting", params={"path": str(release), "started": str(marker)})
        await started_pid(marker)
        assert (await gateway.get(run_id))["worker_alive"]
        await is_seen(gateway, "killed")
        worker.process.kill()
        worker.end()
    run = await is_handed_over(gateway, run_id)
    assert (run["status"], run["worker_id"], run["worker_alive"]) == ("RUNNING", "killed", False)
    await worker_is(gateway, "killed", state="DISCONNECTED")
    explained = (await gateway.http.get(f"/runs/{run_id}/explain")).json()
    found = next(each for each in explained["findings"] if each["code"] == "handed_over")
    assert "killed is gone" in found["message"]
    assert found["evidence"]["handed_over_at"] == run["handed_over_at"]
    assert gateway.inside.takeover.counts["running"] == before + 1
    assert (
        f'pyoco_runs_handed_over_total{{state="running"}} {before + 1}'
        in (await gateway.http.get("/metrics")).text
    )
    [said] = [each for each in caplog.records if "handed a run over" in each.message]
    assert (said.levelname, said.run_id, said.worker_id) == ("WARNING", run_id, "killed")  # type: ignore[attr-defined]
    release.touch()
    async with own_queue.worker("heir"):
        run = await gateway.ends(run_id)
    assert (run["status"], run["worker_id"], run["attempt"]) == ("COMPLETED", "heir", 2)
    assert run["delivery"][1] == 2, "the same message: its deliveries are counted"
    assert "handed_over_at" not in run


async def test_a_suspended_worker_keeps_its_runs(own_queue: OwnQueue, tmp_path: Path) -> None:
    gateway, release, marker = own_queue.gateway, tmp_path / "release", tmp_path / "started"
    settings = {
        "PYOCO_NATS_URL": gateway.inside.config.nats_url,
        "PYOCO_CONSUMER_ACK_WAIT_SEC": "3600",
        "PYOCO_WORKER_HEARTBEAT_INTERVAL_SEC": "0.2",
    }
    arguments = ("--flows", str(FLOWS), "--worker-id", "slow", "--tag", own_queue.tag)
    with running(WORKER, *arguments, cwd=tmp_path, **settings) as (worker, _):
        run_id = await own_queue.submit("waiting", params={"path": str(release), "started": str(marker)})
        await started_pid(marker)
        await is_seen(gateway, "slow")
        async with own_queue.worker("other"):
            worker.send(signal.SIGSTOP)
            # Longer than a dead worker is detected.
            await asyncio.sleep(5 * gateway.inside.config.worker_lost_after_sec)
            run = await gateway.get(run_id)
            assert (run["worker_id"], run["attempt"], "handed_over_at" in run) == ("slow", 1, False)
            await worker_is(gateway, "slow", state="RUNNING")
            worker.send(signal.SIGCONT)
            release.touch()
            run = await gateway.ends(run_id)
    assert (run["status"], run["worker_id"], run["attempt"]) == ("COMPLETED", "slow", 1)


async def test_a_worker_that_comes_back_has_lost_its_ownership_only(own_queue: OwnQueue) -> None:
    gateway = own_queue.gateway
    async with killable_worker(own_queue, "away", **SILENT) as away:
        run_id = await own_queue.submit("noop")
        delivery, owned = await claimed_by(away)
        with disconnected(gateway, away):
            await is_handed_over(gateway, run_id)
        async with own_queue.worker("heir"):
            run = await gateway.ends(run_id)
        assert (run["status"], run["worker_id"], run["attempt"]) == ("COMPLETED", "heir", 2)
        with pytest.raises(RunEnded, match="COMPLETED already"):
            await owned.write(lambda snapshot: snapshot)
        await delivery.ack()
        await worker_is(gateway, "away", state="DISCONNECTED")
        # Its next heartbeat shows that it is alive, and it takes runs again.
        away._services.presence.refresh_now()
        await worker_is(gateway, "away", state="IDLE")
        later = await own_queue.submit("noop")
        assert await away.run_once(LIMIT_SEC) == later
        assert (await gateway.ends(later))["worker_id"] == "away"


async def test_a_worker_that_comes_back_keeps_the_run_that_it_claims_again(own_queue: OwnQueue) -> None:
    gateway = own_queue.gateway
    async with killable_worker(own_queue, "away", **SILENT) as away:
        run_id = await own_queue.submit("noop")
        await claimed_by(away)
        with disconnected(gateway, away):
            await is_handed_over(gateway, run_id)
        away._services.presence.refresh_now()
        await worker_is(gateway, "away", state="IDLE")
        delivery, owned = await claimed_by(away)
        await eventually(lambda: not gateway.inside.takeover._searches, describe="it is not lost any more")
        run = await gateway.get(run_id)
        assert (run["worker_id"], run["delivery"]) == ("away", list(delivery.id))
        assert "handed_over_at" not in run
        await owned.write(lambda snapshot: snapshot)


async def test_an_owner_that_writes_again_is_fenced_by_the_next_claim(own_queue: OwnQueue) -> None:
    gateway = own_queue.gateway
    async with (
        killable_worker(own_queue, "away", **SILENT) as away,
        killable_worker(own_queue, "heir") as heir,
    ):
        run_id = await own_queue.submit("noop")
        _, owned = await claimed_by(away)
        with disconnected(gateway, away):
            await is_handed_over(gateway, run_id)
            # Until then it is the owner.
            await owned.write(lambda snapshot: snapshot)
            await claimed_by(heir)
        with pytest.raises(RunTaken, match="heir"):
            await owned.write(lambda snapshot: snapshot)


async def test_a_delivery_that_was_not_started_is_executed_by_another(own_queue: OwnQueue) -> None:
    gateway = own_queue.gateway
    async with killable_worker(own_queue, "lost") as lost:
        run_id = await own_queue.submit("noop")
        async with asyncio.timeout(LIMIT_SEC):
            await lost._intake.take()
        await die(lost)
        async with own_queue.worker("heir"):
            run = await gateway.ends(run_id)
    assert (run["status"], run["worker_id"], run["attempt"]) == ("COMPLETED", "heir", 1)


async def test_a_living_worker_keeps_a_delivery_that_it_has_not_started(own_queue: OwnQueue) -> None:
    gateway = own_queue.gateway
    async with killable_worker(own_queue, "lost") as lost, killable_worker(own_queue, "slow") as slow:
        run_id = await own_queue.submit("noop")
        async with asyncio.timeout(LIMIT_SEC):
            delivery = await slow._intake.take()
        await die(lost)
        # The second job of the run, which is published because it may have been at the lost worker.
        async with asyncio.timeout(LIMIT_SEC):
            second = await slow._intake.take()
        assert await slow._slots.handle_one(delivery) == run_id
        assert await slow._slots.handle_one(second) == run_id
        run = await gateway.ends(run_id)
        assert (run["status"], run["attempt"]) == ("COMPLETED", 1)
        assert run["delivery"] == list(delivery.id), "the second job is dropped"
        await own_queue.becomes_empty()


async def test_the_message_of_another_run_is_not_redelivered(own_queue: OwnQueue) -> None:
    """A stream that is created again counts from 1, and a worker may store any sequence."""
    gateway = own_queue.gateway
    async with killable_worker(own_queue, "lost") as lost, killable_worker(own_queue, "slow") as slow:
        kept = await own_queue.submit("noop")
        delivery, _ = await claimed_by(slow)
        stale = await own_queue.submit("noop")
        _, owned = await claimed_by(lost)
        await owned.write(lambda snapshot: structs.replace(snapshot, delivery=delivery.id))
        handed_over = await own_queue.submit("noop")
        await claimed_by(lost)
        await die(lost)
        async with own_queue.worker("heir"):
            await gateway.ends(handed_over)
            run = await gateway.get(kept)
        assert (run["status"], run["worker_id"], run["attempt"]) == ("RUNNING", "slow", 1)
        assert "handed_over_at" not in await gateway.get(stale)


async def test_a_run_that_kills_its_workers_fails_after_the_last_delivery(own_queue: OwnQueue) -> None:
    run_id = await own_queue.submit("noop")
    for attempt in (1, 2):
        async with killable_worker(own_queue, f"victim-{attempt}", consumer_max_deliver=2) as victim:
            delivery, _ = await claimed_by(victim)
            assert delivery.number == attempt
            await die(victim)
            if attempt == 1:
                await is_handed_over(own_queue.gateway, run_id)
    run = await own_queue.gateway.ends(run_id)
    assert (run["status"], run["reason"], run["attempt"]) == ("FAILED", "deliveries_exhausted", 2)
    assert "victim-2" in run["error"]
    await own_queue.becomes_empty()


async def test_several_gateways_hand_a_run_over_once(own_queue: OwnQueue, tmp_path: Path) -> None:
    first = own_queue.gateway
    config = replace(first.inside.config, index_dir=str(tmp_path / "index"))
    async with running_gateway(config) as second:
        before = [gateway.inside.takeover.counts.get("running", 0) for gateway in (first, second)]
        async with killable_worker(own_queue, "lost") as lost:
            await is_seen(second, "lost")
            run_id = await own_queue.submit("noop")
            await claimed_by(lost)
            instance_id = lost._services.instance_id
            await die(lost)
        for gateway in (first, second):
            lost_here = gateway.inside.takeover._workers
            await eventually(lambda found=lost_here: found.is_lost(instance_id), describe="it is lost")  # type: ignore[misc]
        async with own_queue.worker("heir"):
            run = await first.ends(run_id)
        assert (run["worker_id"], run["attempt"]) == ("heir", 2)
        after = [gateway.inside.takeover.counts.get("running", 0) for gateway in (first, second)]
    assert sum(after) == sum(before) + 1


async def test_a_handover_that_nats_refuses_is_logged_with_the_cure(
    own_queue: OwnQueue, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = own_queue.gateway

    async def refuse(*_: object) -> None:
        raise NatsForbidden("this user may not publish to $JS.ACK.PYOCO_WORK.x")

    handover = gateway.inside.takeover._handover
    monkeypatch.setattr(handover._unowned_runs.queue, "redeliver", refuse)
    try:
        async with killable_worker(own_queue, "lost") as lost:
            await own_queue.submit("noop")
            await claimed_by(lost)
            await die(lost)
        said = await eventually(
            lambda: [each for each in caplog.records if "nats-config" in each.message],
            describe="the refusal is logged",
        )
        assert [each.levelname for each in said] == ["ERROR"]
    finally:
        handover.on_connect()


async def test_a_record_with_an_invalid_instance_id_is_not_probed(own_queue: OwnQueue) -> None:
    inside = own_queue.gateway.inside
    probed = inside.takeover._workers
    for instance_id in ("*", ">", "a.b", "", "A" * 32):
        record = {"worker_id": "w", "instance_id": instance_id, "state": "IDLE", "last_seen_at": 1.0}
        await inside.connection.publish("$KV.pyoco_workers.w", msgspec.json.encode(record | {"tags": []}))
    async with killable_worker(own_queue, "later"):
        assert all(len(instance_id) == 32 for instance_id in probed.probed)
