"""Writes whose ack is lost, and writes that fail: the response matches what was stored.

Each test loses one ack of NATS, or the write itself, and then retries the request.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any

import httpx
import pytest
from msgspec import structs

from pyoco_server.aio.deadlines import BlockTimeouts
from pyoco_server.broker.jetstream.object_store import ObjectStore
from pyoco_server.broker.jetstream.publishing import RevisionConflict, publish_acked
from pyoco_server.broker.stores.runs.bulk_records import BulkRecords, StoredBulk
from pyoco_server.broker.stores.runs.dead_letters import DeadLetters
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.broker.stores.waits.wait_store import WaitStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.runs.bulk_models import BulkItem, BulkRecord
from pyoco_server.records.runs.run_models import Job, RunSnapshot, pending_snapshot
from pyoco_server.records.waits.wait_models import Actor, WaitRecord
from pyoco_server.runs.lifecycle import cancel_request as cancel
from pyoco_server.runs.lifecycle import withdrawal
from pyoco_server.runs.lifecycle.tenancy import ANYBODY
from pyoco_server.runs.lifecycle.withdrawal import Withdrawer
from pyoco_server.waits.continuation import Continuations
from pyoco_server.waits.human.reopen import retry_run
from tests.integration.human.test_wait_retry import failed_run
from tests.integration.lifecycle.test_dlq import letter, put, seqs
from tests.integration.lifecycle.test_rerun import end, reruns
from tests.support.broker.connections import connected
from tests.support.broker.stored_waits import decide
from tests.support.broker.worker_records import a_record, put_record
from tests.support.inspection import stored_run_ids
from tests.support.problems import assert_problem
from tests.support.running.bulk_operations import counts, ended_runs, ends, get, origins, start, without_lease
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.waiting_runs import waiting_run
from tests.support.running.workers import serving_worker
from tests.support.samples.wheels import wheel_bytes
from tests.support.waiting import LIMIT_SEC, eventually, eventually_equals

pytestmark = pytest.mark.asyncio(loop_scope="module")

LOST = "the ack was lost"


@pytest.fixture
def config(config: NatsBackendConfig) -> NatsBackendConfig:
    return replace(config, sweep_interval_sec=0.2)


@pytest.fixture
def gateway(shared_gateway: RunningGateway) -> RunningGateway:
    return shared_gateway


def lose_ack(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, *, stored: bool = True
) -> Callable[[], int]:
    """Makes the next call fail, after the write or instead of it; returns a counter of failures."""
    method: Callable[..., Awaitable[Any]] = getattr(owner, name)
    failures = 0

    async def once(*args: Any, **kwargs: Any) -> Any:
        nonlocal failures
        if failures:
            return await method(*args, **kwargs)
        failures += 1
        if stored:
            await method(*args, **kwargs)
        raise NatsUnavailable(LOST)

    monkeypatch.setattr(owner, name, once)
    return lambda: failures


class TestSubmit:
    @pytest.fixture(autouse=True)
    def _no_background_withdrawal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """As if the gateway were killed after each response, and as if NATS answered in time."""

        async def never(_: Withdrawer) -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(Withdrawer, "_next", never)
        monkeypatch.setattr(withdrawal, "BEFORE_RESPONSE_SEC", LIMIT_SEC)

    @pytest.mark.parametrize("key", [None, "order-1"])
    @pytest.mark.parametrize("lost_write", ["snapshot", "job"])
    async def test_a_failed_submission_is_withdrawn_before_the_response(
        self, own_gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch, key: str | None, lost_write: str
    ) -> None:
        submitter, written = own_gateway.inside.runs.submitter, list[Any]()
        owner, name = (
            (submitter._store, "create") if lost_write == "snapshot" else (submitter._queue, "publish")
        )

        async def lost(record: Any, **_: Any) -> None:
            written.append(record)
            raise NatsUnavailable(LOST)

        async def submit() -> httpx.Response:
            headers = {} if key is None else {"Idempotency-Key": key}
            return await own_gateway.http.post("/runs", json={"flow_name": "noop"}, headers=headers)

        with monkeypatch.context() as patched:
            patched.setattr(owner, name, lost)
            assert "Idempotency-Key" not in assert_problem(await submit(), 503, 3)["detail"]
        assert await stored_run_ids(own_gateway) == set()
        # Nor is a snapshot stored that was on its way.
        snapshot = pending_snapshot(written[0]) if lost_write == "job" else written[0]
        with pytest.raises(RevisionConflict):
            await own_gateway.inside.runs.store.create(snapshot)
        again = await submit()
        assert again.status_code == 200, again.text
        assert await stored_run_ids(own_gateway) == {again.json()["run_id"]}

    async def test_a_started_run_is_accepted_despite_a_lost_ack(
        self, config: NatsBackendConfig, own_gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        queue = own_gateway.inside.runs.submitter._queue
        publish = queue.publish

        async def heard_by_a_worker_only(job: Job, *, run_revision: int, encoded: bytes) -> None:
            await publish(job, run_revision=run_revision, encoded=encoded)
            await own_gateway.ends(job.run_id)
            raise NatsUnavailable(LOST)

        monkeypatch.setattr(queue, "publish", heard_by_a_worker_only)
        # The test's worker takes as long as it takes.
        monkeypatch.setattr(own_gateway.inside.runs.submitter, "_timeouts", BlockTimeouts(LIMIT_SEC))
        async with serving_worker(config):
            run_id = await own_gateway.submit("noop")
        assert (await own_gateway.get(run_id))["status"] == "COMPLETED"

    async def test_an_unconfirmed_withdrawal_is_reported(
        self, own_gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def away(*_: Any, **__: Any) -> None:
            raise NatsUnavailable(LOST)

        monkeypatch.setattr(own_gateway.inside.runs.submitter._queue, "publish", away)
        monkeypatch.setattr(RunStore, "get_from_leader", away)
        answer = await own_gateway.http.post("/runs", json={"flow_name": "noop"})
        detail = assert_problem(answer, 503, 3)["detail"]
        assert "whether it was stored is not known" in detail
        assert "Idempotency-Key" in detail


class TestLostWithdrawal:
    @pytest.mark.parametrize("key", [None, "order-1"])
    async def test_a_withdrawal_that_nats_has_lost_is_repeated(
        self, own_gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch, key: str | None
    ) -> None:
        submitter, connection = own_gateway.inside.runs.submitter, own_gateway.inside.connection
        create, written = submitter._store.create, dict[str, bytes]()

        async def unheard(snapshot: RunSnapshot, *, encoded: bytes) -> int:
            await create(snapshot, encoded=encoded)
            written[f"$KV.{connection.config.runs_kv_bucket}.{snapshot.run_id}"] = encoded
            raise NatsUnavailable(LOST)

        headers = {} if key is None else {"Idempotency-Key": key}
        with monkeypatch.context() as patched:
            patched.setattr(submitter._store, "create", unheard)
            answer = await own_gateway.http.post("/runs", json={"flow_name": "noop"}, headers=headers)
        assert_problem(answer, 503, 3)
        await eventually(lambda: submitter.withdrawer._withdrawn, describe="it is withdrawn")
        again = await own_gateway.http.post("/runs", json={"flow_name": "noop"}, headers=headers)
        accepted = {again.json()["run_id"]}
        assert await stored_run_ids(own_gateway) == accepted
        # As a server has it that has lost its newest messages in a power failure.
        [(subject, snapshot)] = written.items()
        await publish_acked(connection, subject, snapshot)
        assert len(await stored_run_ids(own_gateway)) == 2
        connection.interruptions += 1
        await eventually_equals(
            lambda: stored_run_ids(own_gateway), accepted, describe="the refused run is withdrawn again"
        )

    async def test_a_withdrawal_is_forgotten_when_it_cannot_be_lost_any_more(
        self, own_gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        submitter = own_gateway.inside.runs.submitter
        lose_ack(monkeypatch, submitter._store, "create")
        assert_problem(await own_gateway.http.post("/runs", json={"flow_name": "noop"}), 503, 3)
        await eventually(lambda: submitter.withdrawer._withdrawn, describe="it is withdrawn")
        monkeypatch.setattr(withdrawal, "_REPEATED_SEC", 0.0)
        await eventually(lambda: not submitter.withdrawer._withdrawn, describe="it is forgotten")


class TestBulk:
    async def test_a_failed_operation_never_starts_and_its_retry_runs_once(
        self, own_gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run_ids = await ended_runs(own_gateway, 2)
        create = BulkRecords.create
        refused: list[StoredBulk] = []

        async def unheard_create(self: BulkRecords, record: BulkRecord, items: list[BulkItem]) -> StoredBulk:
            stored = await create(self, record, items)
            if refused:
                return stored
            refused.append(stored)
            raise NatsUnavailable(LOST)

        monkeypatch.setattr(BulkRecords, "create", unheard_create)
        query, body = {"status": "FAILED"}, {"expected_count": 2}
        with without_lease(own_gateway):
            assert_problem(await own_gateway.http.post("/bulk/rerun", params=query, json=body), 503, 3)
        answer = await own_gateway.http.post("/bulk/rerun", params=query, json=body)
        assert answer.status_code == 200, answer.text
        operation = answer.json()["operation"]
        assert counts(await ends(own_gateway, operation)) == ("COMPLETED", 2, 0, 0)
        assert await origins(own_gateway, await stored_run_ids(own_gateway)) == dict.fromkeys(run_ids, 1)
        listed = (await own_gateway.http.get("/bulk")).json()["items"]
        assert [each["bulk_id"] for each in listed] == [operation["bulk_id"]]
        # Nor does a write that was on its way.
        with pytest.raises(RevisionConflict):
            await create(own_gateway.inside.bulk.records, refused[0].record, [])

    async def test_an_operation_started_by_another_gateway_is_accepted(
        self, config: NatsBackendConfig, own_gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await put(own_gateway, letter())
        create = BulkRecords.create

        async def carried_out_unheard(
            self: BulkRecords, record: BulkRecord, items: list[BulkItem]
        ) -> StoredBulk:
            await create(self, record, items)
            await ends(own_gateway, {"bulk_id": record.bulk_id})
            raise NatsUnavailable(LOST)

        monkeypatch.setattr(BulkRecords, "create", carried_out_unheard)
        async with running_gateway(config):
            answer = await own_gateway.http.post("/dlq/delete", json={"expected_count": 1})
        assert answer.status_code == 200, answer.text
        assert counts(answer.json()["operation"]) == ("COMPLETED", 1, 0, 0)

    @pytest.mark.parametrize("key", [None, "bulk-1"])
    async def test_an_operation_seen_as_started_is_accepted(
        self, own_gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch, key: str | None
    ) -> None:
        await put(own_gateway, letter())
        create, get_record = BulkRecords.create, BulkRecords.get
        reads = 0

        async def begun_unheard(self: BulkRecords, record: BulkRecord, items: list[BulkItem]) -> StoredBulk:
            stored = await create(self, record, items)
            started = structs.replace(record, started_at=1.0)
            await self.replace(started, revision=stored.revision)
            raise NatsUnavailable(LOST)

        async def answered_once(self: BulkRecords, bulk_id: str) -> StoredBulk | None:
            nonlocal reads
            reads += 1
            if reads > 1:
                raise NatsUnavailable(LOST)
            return await get_record(self, bulk_id)

        headers = {} if key is None else {"Idempotency-Key": key}
        with without_lease(own_gateway), monkeypatch.context() as patched:
            # However slow the machine is: the one read is answered in time.
            patched.setattr(withdrawal, "BEFORE_RESPONSE_SEC", LIMIT_SEC)
            patched.setattr(BulkRecords, "create", begun_unheard)
            patched.setattr(BulkRecords, "get", answered_once)
            answer = await own_gateway.http.post("/dlq/delete", json={"expected_count": 1}, headers=headers)
        assert answer.status_code == 200, answer.text
        assert answer.json()["operation"]["started_at"] == 1.0

    async def test_a_failed_operation_that_started_is_stopped_after_the_outage(
        self, own_gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await put(own_gateway, *(letter() for _ in range(3)))
        records, created = own_gateway.inside.bulk.records, asyncio.Event()
        create, found = BulkRecords.create, BulkRecords.get
        refused: list[StoredBulk] = []

        async def unheard_create(self: BulkRecords, record: BulkRecord, items: list[BulkItem]) -> StoredBulk:
            refused.append(await create(self, record, items))
            created.set()
            raise NatsUnavailable(LOST)

        async def away_at_first(self: BulkRecords, bulk_id: str) -> StoredBulk | None:
            if created.is_set():
                created.clear()
                # Meanwhile another gateway takes its first items.
                started = structs.replace(refused[0].record, started_at=1.0)
                await records.replace(started, revision=refused[0].revision)
                raise NatsUnavailable(LOST)
            return await found(self, bulk_id)

        monkeypatch.setattr(BulkRecords, "create", unheard_create)
        monkeypatch.setattr(BulkRecords, "get", away_at_first)
        with without_lease(own_gateway):
            assert_problem(await own_gateway.http.post("/dlq/delete", json={"expected_count": 3}), 503, 3)

            async def stopped() -> bool:
                return bool((await get(own_gateway, refused[0].record.bulk_id))["state"] == "STOPPED")

            await eventually(stopped, describe="the operation is stopped")
        assert await seqs(own_gateway) == [3, 2, 1]


class TestLetter:
    async def test_a_replayed_letter_that_cannot_be_deleted_is_reported(
        self, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        origin = await end(gateway, await gateway.submit("chain"))
        seq = await put(gateway, letter(run_id=origin, flow_name="chain"))
        failures = lose_ack(monkeypatch, DeadLetters, "delete", stored=False)
        answer = await gateway.http.post(f"/dlq/{seq}/replay", json={"delete": True})
        assert (answer.status_code, failures()) == (200, 1)
        assert (answer.json()["origin_run_id"], answer.json()["deleted"]) == (origin, False)
        assert (await gateway.http.get(f"/dlq/{seq}")).status_code == 200
        assert await reruns(gateway, origin) == [answer.json()["run_id"]]

    @pytest.mark.parametrize("stored", [True, False], ids=["deleted", "kept"])
    async def test_a_deletion_with_a_lost_ack_is_read_back(
        self, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch, *, stored: bool
    ) -> None:
        seq = await put(gateway, letter())
        lose_ack(monkeypatch, DeadLetters, "delete", stored=stored)
        answer = await gateway.http.delete(f"/dlq/{seq}")
        assert answer.status_code == (200 if stored else 503)
        assert (await gateway.http.get(f"/dlq/{seq}")).status_code == (404 if stored else 200)


class TestWheel:
    @pytest.mark.parametrize("stored", [True, False], ids=["deleted", "kept"])
    async def test_an_upload_and_a_deletion_with_a_lost_ack_are_read_back(
        self, own_gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch, *, stored: bool
    ) -> None:
        http, name = own_gateway.http, "greetings-0.1.0-py3-none-any.whl"
        with monkeypatch.context() as patched:
            failures = lose_ack(patched, ObjectStore, "_write_info")
            uploaded = await http.post("/wheels", files={"wheel": (name, wheel_bytes())})
            assert (uploaded.status_code, failures()) == (200, 1), uploaded.text
        assert len((await http.get("/wheels")).json()) == 1
        lose_ack(monkeypatch, ObjectStore, "_write_info", stored=stored)
        answer = await http.delete(f"/wheels/{name}")
        assert answer.status_code == (200 if stored else 503)
        assert len((await http.get("/wheels")).json()) == (0 if stored else 1)


class TestCancel:
    @pytest.mark.parametrize("stored", [True, False], ids=["cancelled", "unchanged"])
    async def test_a_cancel_with_a_lost_ack_is_read_back(
        self, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch, *, stored: bool
    ) -> None:
        run_id = await gateway.submit("noop")
        failures = lose_ack(monkeypatch, RunStore, "replace", stored=stored)
        answer = await gateway.http.post(f"/runs/{run_id}/cancel", json={"reason": "a typo"})
        assert (answer.status_code, failures()) == (200 if stored else 503, 1)
        if stored:
            assert (answer.json()["status"], answer.json()["cancel_reason"]) == ("CANCELLING", "a typo")
        assert (await gateway.get(run_id))["status"] == ("CANCELLED" if stored else "PENDING")

    async def test_a_cancel_that_cannot_be_read_back_can_be_retried(
        self, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run_id = await gateway.submit("noop")
        with monkeypatch.context() as patched:
            lose_ack(patched, RunStore, "replace")

            async def in_vain(read: Coroutine[Any, Any, Any], failure: NatsUnavailable) -> None:
                read.close()
                raise failure

            patched.setattr(cancel, "read_back", in_vain)
            assert_problem(await gateway.http.post(f"/runs/{run_id}/cancel"), 503, 3)
        answer = await gateway.http.post(f"/runs/{run_id}/cancel")
        assert (answer.status_code, answer.json()["status"]) == (200, "CANCELLING")


class TestStop:
    @pytest.mark.parametrize("stored", [True, False], ids=["stopped", "running"])
    async def test_a_stop_with_a_lost_ack_is_read_back(
        self, own_gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch, *, stored: bool
    ) -> None:
        await put(own_gateway, letter())
        with without_lease(own_gateway):
            operation = await start(own_gateway, "/dlq/delete", expected_count=1)
            failures = lose_ack(monkeypatch, BulkRecords, "replace", stored=stored)
            answer = await own_gateway.http.post(f"/bulk/{operation['bulk_id']}/stop")
            assert (answer.status_code, failures()) == (200 if stored else 503, 1)
            kept = await get(own_gateway, operation["bulk_id"])
        assert kept["state"] == ("STOPPED" if stored else "RUNNING")


class TestWorker:
    @pytest.mark.parametrize("stored", [True, False], ids=["stored", "unchanged"])
    async def test_a_worker_change_with_a_lost_ack_is_read_back(
        self, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch, *, stored: bool
    ) -> None:
        name = f"worker-{stored}"
        await put_record(gateway.inside.connection, a_record(name, seen_at=time.time()))
        failures = lose_ack(monkeypatch, gateway.inside.workers._bucket, "update", stored=stored)
        answer = await gateway.http.patch(f"/workers/{name}", json={"paused": True, "drain": True})
        assert (answer.status_code, failures()) == (200 if stored else 503, 1)
        worker = (await gateway.http.get(f"/workers/{name}")).json()
        assert (worker["paused"], worker["draining"]) == (stored, stored)
        listed = (await gateway.http.get("/workers", params={"scope": "all"})).json()
        assert [each["paused"] for each in listed if each["worker_id"] == name] == [stored]


class TestAnswer:
    @pytest.mark.parametrize("way", ["respond", "resume"])
    async def test_an_answer_with_a_lost_ack_continues_its_run(
        self, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch, way: str
    ) -> None:
        run = await waiting_run(gateway.inside.connection)
        failures = lose_ack(monkeypatch, WaitStore, "replace")
        if way == "respond":
            answer = await gateway.http.post(f"/waits/{run.wait_id}/respond", json={"payload": 1})
        else:
            answer = await gateway.http.post("/resume", json={"runId": run.run_id, "payload": 1})
        assert (answer.status_code, failures()) == (200, 1), answer.text
        assert await run.states() == ["answered"]
        assert len(await run.jobs()) == 1
        assert await run.kinds() == ["opened", "answered"]

    async def test_an_answer_that_was_not_stored_can_be_retried(
        self, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = await waiting_run(gateway.inside.connection)
        lose_ack(monkeypatch, WaitStore, "replace", stored=False)
        path, body = f"/waits/{run.wait_id}/respond", {"payload": 1}
        assert (await gateway.http.post(path, json=body)).status_code == 503
        assert await run.states() == ["open"]
        assert (await gateway.http.post(path, json=body)).status_code == 200

    async def test_an_answer_of_another_caller_is_not_taken_for_its_own(
        self, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = await waiting_run(gateway.inside.connection)
        replace_wait = WaitStore.replace
        lost = False

        async def overtaken(store: WaitStore, record: WaitRecord, revision: int, **options: Any) -> int:
            nonlocal lost
            if lost:
                return await replace_wait(store, record, revision, **options)
            lost = True
            await decide(store, run.waits[0])
            raise NatsUnavailable(LOST)

        monkeypatch.setattr(WaitStore, "replace", overtaken)
        path, body = f"/waits/{run.wait_id}/respond", {"payload": 1}
        assert [(await gateway.http.post(path, json=body)).status_code for _ in range(2)] == [503, 409]

    async def test_a_late_answer_is_refused_after_an_expiry_with_a_lost_ack(
        self, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = await waiting_run(gateway.inside.connection)
        monkeypatch.setattr(gateway.inside.waits.answers, "_clock", lambda: run.waits[0].deadline_at)
        failures = lose_ack(monkeypatch, WaitStore, "replace")
        answer = await gateway.http.post(f"/waits/{run.wait_id}/respond", json={"payload": 1})
        assert (answer.status_code, failures()) == (410, 1)
        assert (await run.now()).status == "FAILED"


class TestRetry:
    async def test_a_retry_continues_after_a_close_with_a_lost_ack(
        self, config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def died_before(*_: object) -> None:
            """As the gateway that failed the run with another wait open."""

        async with connected(config) as connection:
            with monkeypatch.context() as patched:
                patched.setattr(Continuations, "close_waits", died_before)
                run = await failed_run(connection, {})
            assert await run.states() == ["expired", "open"]
            failures = lose_ack(monkeypatch, WaitStore, "replace")
            again = await retry_run(connection, run.run_id, ANYBODY, Actor())
            assert (again.status, failures()) == ("WAITING_HUMAN", 1)
            assert await run.states() == ["expired", "cancelled"]

    @pytest.mark.parametrize("write", [(RunStore, "replace"), (WaitStore, "create")], ids=["run", "wait"])
    async def test_a_retry_with_a_lost_ack_opens_one_wait(
        self, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch, write: tuple[type, str]
    ) -> None:
        run = await failed_run(gateway.inside.connection)
        failures = lose_ack(monkeypatch, *write)
        answers = [await gateway.http.post(f"/runs/{run.run_id}/retry") for _ in range(2)]
        assert [answer.status_code for answer in answers] == [200, 200]
        assert failures() == 1
        assert {answer.json()["status"] for answer in answers} == {"WAITING_HUMAN"}
        assert answers[0].json()["open_waits"] == answers[1].json()["open_waits"]
        assert len(await WaitStore(gateway.inside.connection).of_run_from_leader(run.run_id)) == 2
