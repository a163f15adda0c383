"""Tenants: the owner of a run, and what other tenants see of it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest
import pytest_asyncio

from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.dead_letter_models import DeadLetter
from pyoco_server.records.runs.run_models import Reason, RunStatus, new_run_id
from pyoco_server.runs.lifecycle.unowned_runs import Ending, UnownedRuns
from tests.integration.lifecycle.test_rerun import YAML
from tests.integration.lifecycle.test_submit import queued_job
from tests.support.broker.stored_runs import ended, signed, snapshot, write
from tests.support.broker.worker_records import a_record, put_record
from tests.support.event_reading import reading_events
from tests.support.problems import assert_problem
from tests.support.running.gateway import running_gateway
from tests.support.running.tenants import OPERATOR, Tenant, a_key, having_tenants
from tests.support.running.waiting_runs import jobs_in_queue
from tests.support.running.workers import serving_worker
from tests.support.waiting import LIMIT_SEC, eventually


class Tenants(NamedTuple):
    acme: Tenant
    rival: Tenant
    operator: Tenant


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def operator(shared_config: NatsBackendConfig) -> AsyncIterator[Tenant]:
    async with having_tenants(shared_config, OPERATOR) as [operator]:
        yield operator


@pytest_asyncio.fixture(loop_scope="module")
async def tenants(operator: Tenant) -> AsyncIterator[Tenants]:
    """Two new tenants, and the operator, who sees what the tenants of all tests have."""
    unique = new_run_id()
    async with a_key(operator, f"acme-{unique}") as acme, a_key(operator, f"rival-{unique}") as rival:
        yield Tenants(acme, rival, operator)


def owner_of(run: dict[str, Any]) -> tuple[str | None, str | None]:
    return run["tenant_id"], run["api_key_id"]


def owned_by(tenant: Tenant, caller: Tenant | None = None) -> tuple[str, str]:
    """The owner of a run of this tenant that the caller, or the tenant itself, has asked for."""
    return tenant.tenant_id, (caller or tenant).api_key_id


async def ended_run(tenant: Tenant, status: RunStatus = RunStatus.FAILED, **fields: Any) -> str:
    """A run of the tenant that has ended, as its worker would have written it."""
    run = ended(status, tenant_id=tenant.tenant_id, api_key_id=tenant.api_key_id, **fields)
    [run_id] = await write(tenant.inside.runs.store, await signed(tenant.inside.connection, run))
    return run_id


async def letter_of(tenant: Tenant, run_id: str) -> dict[str, Any]:
    """The dead letter of the run, which only its tenant sees."""

    async def found() -> dict[str, Any] | None:
        letters: list[dict[str, Any]] = (await tenant.json("/dlq"))["items"]
        return next((letter for letter in letters if letter["run_id"] == run_id), None)

    letter: dict[str, Any] = await eventually(found, describe="there is a dead letter")
    assert letter["tenant_id"] == tenant.tenant_id
    return letter


async def listed(tenant: Tenant, **query: Any) -> set[str]:
    return {run["run_id"] for run in await tenant.json("/runs", **query)}


# Whose a run is


async def test_without_keys_a_run_has_no_tenant(config: NatsBackendConfig) -> None:
    async with running_gateway(config) as gateway:
        run_id = await gateway.submit("noop")
        assert owner_of(await gateway.get(run_id)) == (None, None)
        job = await queued_job(gateway)
    assert (job.tenant_id, job.api_key_id) == (None, None)


async def test_a_run_belongs_to_its_submitter(tenants: Tenants) -> None:
    acme = tenants.acme
    run_id = await acme.submit("noop")
    assert owner_of(await acme.get(run_id)) == owned_by(acme)
    jobs = await jobs_in_queue(acme.inside.connection)
    [job] = [job for job in jobs if job.run_id == run_id]
    assert (job.tenant_id, job.api_key_id) == owned_by(acme)
    [item] = await acme.json("/runs")
    assert item["tenant_id"] == acme.tenant_id
    response = await acme.submit_yaml(YAML)
    assert owner_of(await acme.get(response.json()["run_id"])) == owned_by(acme)


async def test_a_client_cannot_set_the_tenant_of_a_run(tenants: Tenants) -> None:
    response = await tenants.rival.http.post(
        "/runs", json={"flow_name": "noop", "tenant_id": tenants.acme.tenant_id}
    )
    assert_problem(response, 422, 2)
    response = await tenants.rival.http.get("/runs", params={"tenant": tenants.acme.tenant_id})
    assert_problem(response, 422, 17)


async def test_a_rerun_belongs_to_the_tenant_and_names_the_key_that_asked_for_it(tenants: Tenants) -> None:
    run_id = await ended_run(tenants.acme)
    async with a_key(tenants.acme, tenants.acme.tenant_id) as colleague:
        for caller in (colleague, tenants.operator):
            response = await caller.http.post(f"/runs/{run_id}/rerun")
            rerun = await tenants.acme.get(response.json()["run_id"])
            assert owner_of(rerun) == owned_by(tenants.acme, caller)


async def test_a_replayed_letter_makes_a_run_of_its_tenant(tenants: Tenants) -> None:
    acme, operator = tenants.acme, tenants.operator
    run_id = await ended_run(acme)
    letter = DeadLetter(
        timestamp=1000.0, reason="timeout", error=None, run_id=run_id, tenant_id=acme.tenant_id
    )
    await acme.inside.dead_letters.publish(letter, tag="default")
    sequence = (await letter_of(acme, run_id))["seq"]
    response = await operator.http.post(f"/dlq/{sequence}/replay")
    assert response.status_code == 200, response.text
    run = await acme.get(response.json()["run_id"])
    assert owner_of(run) == owned_by(acme, operator)


async def test_a_bulk_rerun_takes_the_tenants_runs_and_no_others(tenants: Tenants) -> None:
    acme, rival = tenants.acme, tenants.rival
    own, others = await ended_run(acme), await ended_run(rival)
    response = await acme.http.post("/bulk/rerun", json={"expected_count": 1})
    assert response.status_code == 200, response.text
    operation = response.json()["operation"]
    assert owner_of(operation) == owned_by(acme)

    async def done() -> bool:
        state: str = (await acme.json(f"/bulk/{operation['bulk_id']}"))["state"]
        return state == "COMPLETED"

    await eventually(done, describe="the operation is over")
    [rerun] = await acme.json("/runs", origin=own)
    assert owner_of(await acme.get(rerun["run_id"])) == owned_by(acme)
    assert await listed(rival) == {others}


async def test_a_dead_letter_belongs_to_the_tenant_of_its_run(
    shared_config: NatsBackendConfig, tenants: Tenants
) -> None:
    acme = tenants.acme
    failing = await acme.submit("failing", tag="letters")
    swept, unreadable = snapshot(tenant_id=acme.tenant_id), snapshot(tenant_id=acme.tenant_id)
    await write(acme.inside.runs.store, swept, unreadable)
    job = f'{{"run_id": "{unreadable.run_id}", "flow_name": 7}}'.encode()
    subject = f"{shared_config.work_subject_prefix}.letters"
    await publish_acked(acme.inside.connection, subject, job)
    async with serving_worker(shared_config, tags=["letters"]):
        assert (await acme.ends(failing))["status"] == "FAILED"
        assert (await acme.ends(unreadable.run_id))["reason"] == "invalid_job"
    stored = await acme.inside.runs.store.get_from_leader(swept.run_id)
    assert stored is not None
    unowned_runs = UnownedRuns(acme.inside.connection)
    assert await unowned_runs.end(stored, Ending(RunStatus.FAILED, Reason.TIMEOUT, "too long"))
    for run_id in (failing, unreadable.run_id, swept.run_id):
        await letter_of(acme, run_id)
    assert (await tenants.rival.json("/dlq"))["items"] == []


async def test_a_dead_letter_without_tenant_is_for_the_operator(tenants: Tenants) -> None:
    async def seen() -> list[int]:
        return [len((await tenant.json("/dlq"))["items"]) for tenant in tenants]

    before = await seen()
    letter = DeadLetter(timestamp=1000.0, reason="invalid_job", error="the job cannot be read")
    await tenants.acme.inside.dead_letters.publish(letter, tag="default")
    assert await seen() == [0, 0, before[2] + 1]


async def test_the_canceller_is_recorded(tenants: Tenants) -> None:
    run_id = await tenants.acme.submit("noop")
    await tenants.acme.http.post(f"/runs/{run_id}/cancel")
    run = await tenants.acme.get(run_id)
    assert (run["status"], run["cancel_requested_by"]) == ("CANCELLED", tenants.acme.api_key_id)


async def test_two_tenants_may_use_the_same_idempotency_key(tenants: Tenants) -> None:
    header = {"Idempotency-Key": "nightly"}
    responses = [
        await tenant.http.post("/runs", json={"flow_name": tenant.tenant_id}, headers=header)
        for tenant in (tenants.acme, tenants.rival, tenants.acme)
    ]
    assert [response.status_code for response in responses] == [200, 200, 200]
    first, others, again = (response.json()["run_id"] for response in responses)
    assert first == again != others


# Who sees what


async def test_a_tenant_counts_its_own_runs(tenants: Tenants) -> None:
    """Runs without a tenant belong to the operator."""
    flow = new_run_id()
    own = {await ended_run(tenants.acme, flow_name=flow) for _ in range(3)}
    others = {await ended_run(tenants.rival, flow_name=flow)}
    [without] = await write(tenants.acme.inside.runs.store, snapshot(flow_name=flow))
    seen_by_operator = own | others | {without}
    for tenant, runs in ((tenants.acme, own), (tenants.rival, others), (tenants.operator, seen_by_operator)):
        page = await tenant.json("/runs", total="true", flow=flow)
        assert {run["run_id"] for run in page["items"]} == runs
        assert (page["total"], page["total_exact"]) == (len(runs), True)
    responses = [(await tenant.http.get(f"/runs/{without}")).status_code for tenant in tenants]
    assert responses == [404, 404, 200]


async def test_without_operator_tenant_no_key_sees_all(config: NatsBackendConfig) -> None:
    default = NatsBackendConfig().http_operator_tenant
    async with having_tenants(config, "acme", OPERATOR, operator=default) as (acme, not_operator):
        run_id = await acme.submit("noop")
        assert await listed(acme) == {run_id}
        assert await listed(not_operator) == set()


async def test_a_cursor_of_another_tenant_is_rejected(tenants: Tenants) -> None:
    for tenant in (tenants.acme, tenants.rival):
        for _ in range(2):
            await ended_run(tenant)
    cursor = (await tenants.acme.json("/runs", paged="true", limit=1))["next_cursor"]
    assert (await tenants.acme.json("/runs", cursor=cursor, limit=1))["items"]
    for tenant in (tenants.rival, tenants.operator):
        assert_problem(await tenant.http.get("/runs", params={"cursor": cursor}), 422, 17)


async def test_search_finds_only_runs_of_the_tenant(tenants: Tenants) -> None:
    words: dict[str, Any] = {"flow_name": "payroll", "worker_id": "w1", "tags": ["default", "night"]}
    own = await ended_run(tenants.acme, **words)
    await ended_run(tenants.rival, **words)
    for query in ({"q": "payroll"}, {"worker": "w1"}, {"tag": "night"}, {"flow": "payroll"}):
        assert await listed(tenants.acme, **query) == {own}


async def test_a_removal_is_sent_to_its_tenant_only(config: NatsBackendConfig) -> None:
    """Also when the gateway has never seen it change and had no follower when it was deleted."""
    async with having_tenants(config, "acme") as [acme]:
        own = await ended_run(acme)
        assert await listed(acme) == {own}
    async with having_tenants(config, "acme", "rival", OPERATOR) as tenants:
        position = (await tenants[0].http.get("/runs")).headers["X-Pyoco-Revision"]
        store = tenants[0].inside.runs.store
        stored = await store.get_from_leader(own)
        assert stored is not None
        await store.delete(own, revision=stored.revision)
        assert await listed(tenants[0]) == set()
        reported = {}
        for tenant in tenants:
            path = f"/runs/watch?after={position}&timeout_sec=1"
            async with reading_events(tenant.http, path) as reading:
                await reading.is_over()
            reported[tenant.tenant_id] = [event.name for event in reading.events if own in event.data]
        assert reported == {"acme": ["removed"], "rival": [], OPERATOR: ["removed"]}


# What all share


@pytest_asyncio.fixture(loop_scope="module")
async def busy_worker(tenants: Tenants) -> tuple[str, str]:
    """A worker without a free slot: its run of acme's, and the one of rival's that it had before."""
    acme, rival = tenants.acme, tenants.rival
    of_rival = await ended_run(rival)
    of_acme = snapshot(tenant_id=acme.tenant_id, status=RunStatus.RUNNING, worker_id="w1")
    await write(acme.inside.runs.store, of_acme)
    record = a_record(
        "w1",
        seen_at=4e9,
        slots_busy=1,
        current_run_id=of_acme.run_id,
        current_run_ids=[of_acme.run_id],
        last_run_id=of_rival,
        last_run_status="FAILED",
        last_run_finished_at=1000.0,
    )
    await put_record(acme.inside.connection, record)
    return of_acme.run_id, of_rival


async def test_a_worker_record_hides_runs_of_other_tenants(
    tenants: Tenants, busy_worker: tuple[str, str]
) -> None:
    of_acme, of_rival = busy_worker
    shown = []
    for tenant in tenants:
        worker = await tenant.json("/workers/w1")
        assert worker in await tenant.json("/workers")
        names = (
            "current_run_id",
            "current_run_ids",
            "last_run_id",
            "last_run_status",
            "last_run_finished_at",
        )
        shown.append([worker[name] for name in names])
        assert worker["slots_busy"] == 1
    assert shown == [
        [of_acme, [of_acme], None, None, None],
        [None, [], of_rival, "FAILED", 1000.0],
        [of_acme, [of_acme], of_rival, "FAILED", 1000.0],
    ]


async def test_the_history_of_a_worker_names_no_keys_of_other_tenants(tenants: Tenants) -> None:
    acme, _, operator = tenants
    worker_id = f"paused-{new_run_id()}"
    await put_record(acme.inside.connection, a_record(worker_id, seen_at=4e9))
    paused = await operator.http.patch(f"/workers/{worker_id}", json={"paused": True})
    assert paused.status_code == 200, paused.text
    [seen] = (await operator.json(f"/workers/{worker_id}"))["history"]
    assert (seen["kind"], seen["by"], seen["tenant_id"]) == ("paused", operator.api_key_id, OPERATOR)
    [hidden] = (await acme.json(f"/workers/{worker_id}"))["history"]
    assert hidden == {"at": seen["at"], "kind": "paused"}
    refused = await acme.http.get("/worker-setup")
    assert refused.status_code == 403, "it says where NATS is"


async def test_owners_of_a_workers_runs_are_read_only_when_unknown(
    tenants: Tenants, busy_worker: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lists, asked = tenants.acme.inside.listing.lists, 0
    catch_up, this_test = lists._catch_up.wait_if_ready, asyncio.current_task()

    async def counted() -> None:
        nonlocal asked
        # The sweep and the alerts of the gateway call it as well.
        asked += asyncio.current_task() is this_test
        await catch_up()

    await lists.caught_up()
    monkeypatch.setattr(lists._catch_up, "wait_if_ready", counted)
    worker = await tenants.acme.json("/workers/w1")
    assert worker["current_run_ids"] == [busy_worker[0]]
    own = await lists.of_tenant([busy_worker[0]], tenants.acme.tenant_id)
    assert own == {busy_worker[0]}
    assert asked == 0
    unknown = "0" * 32
    own = await lists.of_tenant([busy_worker[0], unknown], tenants.acme.tenant_id)
    assert own == {busy_worker[0]}
    assert asked == 1


async def test_an_explanation_does_not_send_which_runs_of_others_are_ahead(
    tenants: Tenants, busy_worker: tuple[str, str]
) -> None:
    waiting = await tenants.rival.submit("noop")
    found = (await tenants.rival.json(f"/runs/{waiting}/explain"))["findings"][0]
    assert found["code"] == "all_slots_busy"
    assert [worker["run_ids"] for worker in found["evidence"]["workers"]] == [[]]
    found = (await tenants.operator.json(f"/runs/{waiting}/explain"))["findings"][0]
    assert [worker["run_ids"] for worker in found["evidence"]["workers"]] == [[busy_worker[0]]]


async def test_the_metrics_of_a_tenant_are_of_its_runs(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a stalled machine they would be of an earlier moment.
    monkeypatch.setattr("pyoco_server.broker.jetstream.bucket_feed._CATCH_UP_SEC", LIMIT_SEC)
    async with having_tenants(config, "acme", "rival", OPERATOR) as (acme, rival, operator):
        for tenant in (acme, rival, rival):
            await tenant.submit(f"flow-of-{tenant.tenant_id}", tag=f"tag-of-{tenant.tenant_id}")
            await ended_run(tenant, flow_name=f"flow-of-{tenant.tenant_id}")
        pages = {
            tenant.tenant_id: (await tenant.http.get("/metrics")).text for tenant in (acme, rival, operator)
        }
    assert 'pyoco_runs_total{status="PENDING"} 1.0' in pages["acme"]
    assert 'pyoco_runs_total{status="PENDING"} 2.0' in pages["rival"]
    assert 'pyoco_runs_total{status="PENDING"} 3.0' in pages[OPERATOR]
    for name in ("flow", "tag"):
        assert f'="{name}-of-acme"' in pages["acme"]
        assert f'="{name}-of-rival"' not in pages["acme"]
        assert f'="{name}-of-acme"' in pages[OPERATOR]
        assert f'="{name}-of-rival"' in pages[OPERATOR]
    assert "pyoco_dlq_messages_total 0.0" in pages[OPERATOR]
    assert "\npyoco_dlq_bytes" not in pages["acme"]


async def test_the_metrics_of_a_tenant_count_its_own_dead_letters(tenants: Tenants) -> None:
    letters = tenants.acme.inside.dead_letters

    async def publish(tenant: Tenant) -> None:
        letter = DeadLetter(timestamp=1.0, reason="execution_error", error="x", tenant_id=tenant.tenant_id)
        await letters.publish(letter, tag="default")

    async def counted(tenant: Tenant) -> str:
        page = (await tenant.http.get("/metrics")).text
        return page.partition("\npyoco_dlq_messages_total ")[2].partition("\n")[0]

    assert await counted(tenants.acme) == "0.0"
    for owner in (tenants.acme, tenants.acme, tenants.rival):
        await publish(owner)
    assert [await counted(tenants.acme), await counted(tenants.rival)] == ["2.0", "1.0"]
    own = (await tenants.acme.json("/dlq"))["items"]
    await letters.delete(own[-1]["seq"])
    await publish(tenants.rival)
    assert [await counted(tenants.acme), await counted(tenants.rival)] == ["1.0", "2.0"]


async def test_an_index_that_is_being_built_hides_the_runs_of_workers(
    tenants: Tenants, busy_worker: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def not_yet() -> None: ...

    monkeypatch.setattr(tenants.acme.inside.listing.index, "complete", not_yet)
    monkeypatch.setattr(tenants.acme.inside.listing.index, "ready", False)
    assert (await tenants.acme.json("/workers/w1"))["current_run_ids"] == []
