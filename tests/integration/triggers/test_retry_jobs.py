"""Retry jobs: drains, back-off, escalation with one notification, and several gateways at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import httpx
import pytest
import pytest_asyncio

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsUnavailable
from pyoco_server.notify.chat_webhook import ChatSender
from pyoco_server.records.triggers.workflow_event_models import RetryJob, RetryStatus
from tests.support.broker.nats_server import NatsServer
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.workflow_events import (
    EVENTS,
    TEMPLATES,
    put_action,
    save_template,
    send,
    started,
    summary,
    template,
)
from tests.support.settings import for_hanging_nats
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

WEBHOOK = "https://chat.googleapis.com/v1/spaces/AAQAspaceid/messages?key=AIzaSyKey12345&token=abcdTOKENwxyz"


def without_worker(config: NatsBackendConfig, **settings: Any) -> NatsBackendConfig:
    """Jobs are executed by drains only."""
    return replace(config, workflow_event_retry_worker_enabled=False, **settings)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateways(shared_config: NatsBackendConfig) -> AsyncIterator[list[RunningGateway]]:
    """Two of one installation."""
    config = without_worker(shared_config)
    async with AsyncExitStack() as stack:
        both = [await stack.enter_async_context(running_gateway(config)) for _ in range(2)]
        await put_action(both[0])
        yield both


async def jobs_of(gateway: RunningGateway, template_id: str) -> list[dict[str, Any]]:
    answer = (await gateway.http.get(f"{EVENTS}/retry-jobs", params={"limit": 200})).json()
    return [job for job in answer["jobs"] if job["template_id"] == template_id]


async def drain(gateway: RunningGateway, **body: Any) -> dict[str, Any]:
    response = await gateway.http.post(f"{EVENTS}/retry-jobs/drain", json=body)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


async def occupied(gateway: RunningGateway, template_id: str, **fields: Any) -> str:
    """A template that forbids overlap, with an open run."""
    await save_template(gateway, template_id, overlap="forbid", **fields)
    first = await started(gateway, template_id=template_id, idempotency_key="first")
    run_id: str = first["run_id"]
    return run_id


async def test_a_drain_starts_the_run_and_a_resend_is_then_a_duplicate(
    gateways: list[RunningGateway],
) -> None:
    gateway = gateways[0]
    holder = await occupied(gateway, "drained", year=2201, month=1)
    refused = await send(
        gateway, template_id="drained", idempotency_key="k", source="erp", notes="n", payload=[1]
    )
    assert refused.status_code == 409
    [job] = await jobs_of(gateway, "drained")
    assert (job["status"], job["attempts"], job["max_attempts"]) == ("pending", 0, 3)
    assert (job["last_reason_class"], job["last_reason_code"]) == ("run_conflict", "http_409")
    assert (job["year"], job["month"], job["notes"], job["source"]) == (2201, 1, "n", "erp")
    assert job["next_retry_at"] > job["created_at"]

    # Not due yet; and while the run is open, the attempt fails.
    assert (await drain(gateway, limit=50))["processed"] == 0
    failed = await drain(gateway, force=True, limit=50)
    assert (failed["processed"], failed["retrying"]) == (1, 1)
    await gateway.http.post(f"/runs/{holder}/cancel")
    before = failed["queue"]["by_status"]["succeeded"]
    done = await drain(gateway, force=True, limit=50)
    assert (done["processed"], done["succeeded"]) == (1, 1)
    assert done["queue"]["by_status"]["succeeded"] == before + 1
    [job] = await jobs_of(gateway, "drained")
    assert (job["status"], job["attempts"], job["next_retry_at"]) == ("succeeded", 2, None)
    run = await gateway.get(job["last_run_id"])
    assert (run["params"]["source"], run["params"]["payload"]) == ("erp", [1])

    resent = await started(gateway, template_id="drained", idempotency_key="k", source="erp", notes="n")
    assert (resent["duplicate"], resent["run_id"]) == (True, job["last_run_id"])
    rows = (await summary(gateway, "2201-01"))["recent"]
    by_retry = [row for row in rows if row["source"] == "erp:retry"]
    assert [(row["action"], row["status"]) for row in by_retry] == [
        ("workflow_event_retry", "success"),
        ("workflow_event_retry", "rejected"),
    ]


async def test_two_drains_at_once_execute_each_job_once(gateways: list[RunningGateway]) -> None:
    await occupied(gateways[0], "many", year=2202, month=1)
    for n in range(20):
        assert (await send(gateways[n % 2], template_id="many", idempotency_key=f"k{n}")).status_code == 409
    stored = (await gateways[0].http.get(f"{TEMPLATES}/many")).json()
    allowed = template("many", year=2202, month=1, base_updated_at=stored["updated_at"])
    assert (await gateways[0].http.post(TEMPLATES, json=allowed)).status_code == 200
    for gateway in gateways:
        await gateway.inside.triggers.directory.caught_up()
    drained = await asyncio.gather(
        *(drain(gateway, force=True, limit=50) for gateway in gateways for _ in range(2))
    )
    assert sum(each["processed"] for each in drained) == sum(each["succeeded"] for each in drained) == 20
    jobs = await jobs_of(gateways[1], "many")
    assert {(job["status"], job["attempts"]) for job in jobs} == {("succeeded", 1)}
    assert len({job["last_run_id"] for job in jobs}) == 20
    month = await summary(gateways[1], "2202-01", recent_limit=200)
    # The first event, and one row for each job.
    assert month["by_status"]["success"] == 21
    assert month["by_status"]["skipped"] == 0


async def test_two_forced_drains_at_once_attempt_each_job_once(gateways: list[RunningGateway]) -> None:
    await occupied(gateways[0], "forced", year=2205, month=1)
    for n in range(10):
        assert (await send(gateways[n % 2], template_id="forced", idempotency_key=f"k{n}")).status_code == 409
    drained = await asyncio.gather(*(drain(gateway, force=True, limit=50) for gateway in gateways))
    jobs = await jobs_of(gateways[0], "forced")
    assert {(job["status"], job["attempts"]) for job in jobs} == {("retrying", 1)}
    assert sum(each["retrying"] for each in drained) == 10
    await gateways[0].http.delete(f"{TEMPLATES}/forced")
    await drain(gateways[0], force=True, limit=50)


async def test_a_job_whose_event_was_sent_again_meanwhile_has_succeeded(
    gateways: list[RunningGateway],
) -> None:
    gateway = gateways[0]
    first = await occupied(gateway, "meanwhile", year=2206, month=1)
    assert (await send(gateway, template_id="meanwhile", idempotency_key="k")).status_code == 409
    await gateway.http.post(f"/runs/{first}/cancel")
    own = await started(gateway, template_id="meanwhile", idempotency_key="k")
    await gateway.http.post(f"/runs/{own['run_id']}/cancel")
    await started(gateway, template_id="meanwhile", idempotency_key="another")
    assert (await drain(gateway, force=True, limit=50))["succeeded"] == 1
    [job] = await jobs_of(gateway, "meanwhile")
    assert (job["status"], job["last_run_id"]) == ("succeeded", own["run_id"])


async def test_no_job_is_forgotten_when_nats_is_away_or_one_cannot_be_executed(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those after the one that failed, of the same call of the timekeeper."""
    async with running_gateway(without_worker(config)) as gateway:
        await put_action(gateway)
        await occupied(gateway, "t")
        for n in range(3):
            await send(gateway, template_id="t", idempotency_key=f"k{n}")
        retries = gateway.inside.workflow_events.retries
        later = gateway.inside.timekeeper.now() + 3600
        checked: list[str] = []
        errors: list[Exception] = [gateway.inside.connection.unavailable(), ValueError("of one job")]

        async def check(key: str, now: float) -> None:
            checked.append(key)
            if errors:
                raise errors.pop(0)

        monkeypatch.setattr(retries, "_check", check)
        with pytest.raises(NatsUnavailable):
            await retries.run_due(later)
        await retries.run_due(later)
        await retries.run_due(later + 3600)
        _, *after_the_outage, again = checked
        assert len(set(after_the_outage)) == len(after_the_outage) == 3
        # The one with an error of its own.
        assert again == after_the_outage[0]


async def test_the_number_of_jobs_is_limited_also_for_many_at_once(config: NatsBackendConfig) -> None:
    async with running_gateway(without_worker(config, workflow_event_retry_max_jobs=10)) as gateway:
        await put_action(gateway)
        await occupied(gateway, "t")
        event = {"template_id": "t", "payload": "x" * 1000}
        sent = (send(gateway, idempotency_key=f"k{n}", **event) for n in range(30))
        assert {answer.status_code for answer in await asyncio.gather(*sent)} == {409}
        assert len(await jobs_of(gateway, "t")) == 10
        retries = gateway.inside.workflow_events.retries
        assert retries.refused == 20
        # What is executed is read again: no gateway has the payloads of all jobs in memory.
        assert {job.event.payload for job in retries.jobs(lambda _: True)} == {None}
        await gateway.http.delete(f"{TEMPLATES}/t")
        assert (await drain(gateway, force=True, limit=50))["discarded"] == 10
        # All have ended, and make room for as many.
        await occupied(gateway, "u")
        sent = (send(gateway, template_id="u", idempotency_key=f"k{n}") for n in range(15))
        await asyncio.gather(*sent)
        assert (len(await jobs_of(gateway, "u")), len(await jobs_of(gateway, "t"))) == (10, 0)


async def test_a_job_whose_template_has_changed_is_discarded(gateways: list[RunningGateway]) -> None:
    gateway = gateways[0]
    for template_id in ("gone", "manual", "renamed"):
        await occupied(gateway, template_id)
        await send(gateway, template_id=template_id, idempotency_key="k")
    assert (await gateway.http.delete(f"{TEMPLATES}/gone")).status_code == 200
    for template_id, change in (("manual", {"kind": "manual_start"}), ("renamed", {"action": "other"})):
        stored = (await gateway.http.get(f"{TEMPLATES}/{template_id}")).json()
        body = template(template_id, base_updated_at=stored["updated_at"], **change)
        assert (await gateway.http.post(TEMPLATES, json=body)).status_code == 200
    drained = await drain(gateway, force=True, limit=50)
    assert (drained["processed"], drained["discarded"]) == (3, 3)
    errors = [(await jobs_of(gateway, each))[0]["last_error"] for each in ("gone", "manual", "renamed")]
    assert errors == [
        "Workflow template not found.",
        "Template step 1 must use trigger_kind=external_event.",
        "the action of the template is 'other' by now",
    ]
    [job] = await jobs_of(gateway, "gone")
    assert (job["last_reason_class"], job["last_reason_code"], job["last_retry_advice"]) == (
        "template_not_found",
        "http_404",
        "retry_after_fix",
    )
    month = await summary(gateway, "2026-10", recent_limit=200)
    noted = [row for row in month["recent"] if row["template_id"] == "gone"]
    assert (noted[0]["action"], noted[0]["reason_class"]) == ("workflow_event_retry", "template_not_found")


async def test_the_last_attempt_escalates_and_notifies_once_even_if_that_fails(
    config: NatsBackendConfig,
) -> None:
    messages: list[bytes] = []

    def refuse(request: httpx.Request) -> httpx.Response:
        messages.append(request.content)
        return httpx.Response(500)

    settings = {"workflow_event_retry_max_attempts": 2, "google_chat_webhook_url": WEBHOOK}
    async with running_gateway(without_worker(config, **settings)) as gateway:
        gateway.inside.workflow_events.notifications.sender = ChatSender(httpx.MockTransport(refuse))
        await put_action(gateway)
        await occupied(gateway, "stuck", year=2203, month=1)
        await send(gateway, template_id="stuck", idempotency_key="k", event_name="<users/all>")
        first = await drain(gateway, force=True)
        second = await drain(gateway, force=True)
        third = await drain(gateway, force=True)
        await eventually(
            lambda: gateway.inside.workflow_events.notifications.outcomes["failed"] == 1, describe="sent"
        )
        await gateway.inside.workflow_events.retries.run_due(gateway.inside.timekeeper.now() + 600)
        [job] = await jobs_of(gateway, "stuck")
        rows = (await summary(gateway, "2203-01"))["recent"]
    assert [(each["retrying"], each["escalated"]) for each in (first, second, third)] == [
        (1, 0),
        (0, 1),
        (0, 0),
    ]
    assert (job["status"], job["attempts"]) == ("escalated", 2)
    assert len(messages) == 1
    assert b"stuck" in messages[0]
    assert b"<users/all>" not in messages[0]
    assert rows[0]["reason_class"] == "run_conflict"


async def test_another_gateway_notifies_if_the_first_one_died(config: NatsBackendConfig) -> None:
    async with running_gateway(without_worker(config)) as gateway:
        await put_action(gateway)
        await occupied(gateway, "t")
        await send(gateway, template_id="t", idempotency_key="k")
        retries = gateway.inside.workflow_events.retries
        notified: list[RetryJob] = []

        async def note(job: RetryJob) -> None:
            notified.append(job)

        retries._on_escalated = note
        [job] = retries.jobs(lambda _: True)
        stored = await retries._store.get_from_leader(job.key)
        assert stored is not None
        now = gateway.inside.timekeeper.now()
        job.status, job.claim, job.claimed_until = RetryStatus.ESCALATED, "dead", now + 60
        written = await retries._store.replace(stored, job)
        retries.directory.put(written.record, written.revision)
        await retries.run_due(now)
        assert notified == []

        retries._clock = lambda: now + 61
        await retries.run_due(now + 61)
        await eventually(lambda: notified, describe="the notification")
        await retries.run_due(now + 122)
        assert [each.idempotency_key for each in notified] == ["k"]


async def test_no_job_waits_for_a_slow_notification(config: NatsBackendConfig) -> None:
    async with running_gateway(without_worker(config, workflow_event_retry_max_attempts=1)) as gateway:
        await put_action(gateway)
        await occupied(gateway, "t")
        for n in range(3):
            await send(gateway, template_id="t", idempotency_key=f"k{n}")
        retries = gateway.inside.workflow_events.retries
        answered = asyncio.Event()
        told: list[RetryJob] = []

        async def slow(job: RetryJob) -> None:
            await answered.wait()
            told.append(job)

        retries._on_escalated = slow
        assert (await drain(gateway, force=True))["escalated"] == 3
        assert {job["status"] for job in await jobs_of(gateway, "t")} == {"escalated"}
        assert told == []
        answered.set()
        await eventually(lambda: len(told) == 3, describe="people are told")


async def test_the_gateway_executes_what_is_due_by_itself(config: NatsBackendConfig) -> None:
    async with running_gateway(replace(config, workflow_event_retry_base_delay_seconds=1)) as gateway:
        await put_action(gateway)
        holder = await occupied(gateway, "t")
        await send(gateway, template_id="t", idempotency_key="k")
        await gateway.http.post(f"/runs/{holder}/cancel")

        async def succeeded() -> bool:
            return [job["status"] for job in await jobs_of(gateway, "t")] == ["succeeded"]

        await eventually(succeeded, describe="the job was executed")


async def test_ended_jobs_are_removed_after_their_time_and_make_room(config: NatsBackendConfig) -> None:
    async with running_gateway(without_worker(config, workflow_event_retry_max_jobs=10)) as gateway:
        await put_action(gateway)
        holder = await occupied(gateway, "t")
        for n in range(10):
            await send(gateway, template_id="t", idempotency_key=f"k{n}")
        # All are waiting: there is no room for another one.
        assert (await send(gateway, template_id="t", idempotency_key="k10")).status_code == 409
        assert len(await jobs_of(gateway, "t")) == 10
        assert gateway.inside.workflow_events.retries.refused == 1
        await gateway.http.post(f"/runs/{holder}/cancel")
        assert (await drain(gateway, force=True, limit=1))["succeeded"] == 1
        assert (await send(gateway, template_id="t", idempotency_key="k11")).status_code == 409
        jobs = await jobs_of(gateway, "t")
        assert len(jobs) == 10
        assert {job["status"] for job in jobs} == {"pending"}

        await gateway.http.delete(f"{TEMPLATES}/t")
        assert (await drain(gateway, force=True, limit=50))["discarded"] == 10
        month_later = gateway.inside.timekeeper.now() + 31 * 86_400
        await gateway.inside.workflow_events.retries.run_due(month_later)
        assert await jobs_of(gateway, "t") == []


@pytest.mark.parametrize("body", [{"limit": 0}, {"limit": 51}, {"limit": "x"}, {"force": 1}, {"other": 1}])
async def test_a_wrong_drain_is_refused(gateways: list[RunningGateway], body: dict[str, Any]) -> None:
    response = await gateways[0].http.post(f"{EVENTS}/retry-jobs/drain", json=body)
    assert response.status_code == 422


@pytest.mark.parametrize("limit", ["0", "201", "x"])
async def test_a_wrong_list_of_jobs_is_refused(gateways: list[RunningGateway], limit: str) -> None:
    response = await gateways[0].http.get(f"{EVENTS}/retry-jobs", params={"limit": limit})
    assert response.status_code == 422


async def test_without_nats_an_event_is_a_503_and_never_queued(
    config: NatsBackendConfig, own_nats: NatsServer
) -> None:
    async with running_gateway(for_hanging_nats(config, own_nats.url)) as gateway:
        await put_action(gateway)
        await save_template(gateway, "t")
        own_nats.kill()

        async def away() -> bool:
            return not gateway.inside.connection.ready

        await eventually(away, describe="NATS is away")
        for body in ({"template_id": "t", "idempotency_key": "k"}, {"template_id": "t"}):
            response = await send(gateway, **body)
            assert response.status_code == 503, response.text
            assert "queued" not in response.text
        own_nats.start()
        await gateway.inside.connection.wait_ready()

        async def answered() -> dict[str, Any] | None:
            response = await send(gateway, template_id="t", idempotency_key="k")
            return response.json() if response.status_code == 200 else None

        await eventually(answered, describe="the event is accepted")
        assert await jobs_of(gateway, "t") == []
