"""The configuration that `nats-config` prints: everything works with it."""

import json
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.broker.queue.tag_consumers import ensure_consumer
from pyoco_server.broker.stores.runs.journal_store import Journal
from pyoco_server.broker.stores.runs.run_object_store import RunObjects
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsForbidden, NatsUnavailable
from pyoco_server.worker import PyocoNatsWorker
from tests.flows import basics
from tests.support.broker.connections import connected
from tests.support.broker.nats_server import SecuredNats
from tests.support.event_reading import reading_events
from tests.support.inspection import claimed_by
from tests.support.places import EXAMPLES
from tests.support.running.api_keys import new_key
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.hook_senders import SECRETS_KEY, a_hook
from tests.support.running.installation import Installation, installation, printed, started, violations
from tests.support.running.workers import idle_worker, serving_worker
from tests.support.samples.wheel_uploads import greeting, greetings, registered, synced
from tests.support.waiting import LIMIT_SEC, eventually
from tests.support.webhooks import webhook_receiver

__all__ = ["installation", "started"]


async def bulk(gateway: RunningGateway, path: str, query: dict[str, str]) -> None:
    dry = await gateway.http.post(path, params=query, json={"dry_run": True})
    assert dry.status_code == 200, dry.text
    begun = await gateway.http.post(path, params=query, json={"token": dry.json()["token"]})
    assert begun.status_code == 200, begun.text
    bulk_id = begun.json()["operation"]["bulk_id"]

    async def done() -> bool:
        return bool((await gateway.http.get(f"/bulk/{bulk_id}")).json()["state"] == "COMPLETED")

    await eventually(done, describe="the bulk operation is done")


async def test_runs_logs_reruns_cancels_and_dead_letters_work(
    installation: Installation, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    async with (
        running_gateway(installation.settings("gateway")) as gateway,
        serving_worker(installation.settings("worker", cancel_grace_period_sec=0.2)),
    ):
        watched = await gateway.submit("counting", params={"counter": str(tmp_path / "c"), "seconds": 0})
        async with reading_events(gateway.http, f"/runs/{watched}/watch") as events:
            await events.is_over()
        talking = await gateway.ends(await gateway.submit("counting-at-once", params={"lines": 3}))
        assert talking["status"] == "COMPLETED"
        log_page = await gateway.http.get(f"/runs/{talking['run_id']}/logs")
        assert "all counted" in log_page.text
        failed = await gateway.ends(await gateway.submit("failing", params={"message": "no"}))
        assert failed["status"] == "FAILED"
        again = await gateway.http.post(f"/runs/{failed['run_id']}/rerun", json={"mode": "failed"})
        assert (await gateway.ends(again.json()["run_id"]))["status"] == "FAILED"
        hanging = await gateway.submit("hanging", params={"started": str(tmp_path / "started")})
        await gateway.reaches(hanging, "RUNNING")
        assert (await gateway.http.get(f"/runs/{hanging}/explain")).status_code == 200
        assert (await gateway.http.post(f"/runs/{hanging}/cancel")).status_code == 200
        assert (await gateway.ends(hanging))["status"] == "CANCELLED"
        letters = (await gateway.http.get("/dlq")).json()["items"]
        assert letters
        replayed = await gateway.http.post(f"/dlq/{letters[0]['seq']}/replay")
        assert replayed.status_code == 200, replayed.text
        await gateway.ends(replayed.json()["run_id"])
        assert (await gateway.http.delete(f"/dlq/{letters[-1]['seq']}")).status_code == 200
        await bulk(gateway, "/bulk/rerun", {"status": "failed"})
        assert (await gateway.http.get("/metrics")).status_code == 200
        key = {"Idempotency-Key": "once"}
        answers = [
            await gateway.http.post("/runs", json={"flow_name": "noop"}, headers=key) for _ in range(2)
        ]
        assert len({answer.json()["run_id"] for answer in answers}) == 1
        paused = await gateway.http.patch("/workers/worker", json={"paused": True})
        assert paused.status_code == 200
    assert violations(caplog) == []


async def test_a_wait_is_watched_notified_and_answered(
    installation: Installation, caplog: pytest.LogCaptureFixture
) -> None:
    examples = EXAMPLES / "flows"
    with webhook_receiver() as receiver:
        async with (
            running_gateway(installation.settings("gateway", notify_url=receiver.url)) as gateway,
            serving_worker(installation.settings("worker"), flows=examples),
        ):
            inside = gateway.inside
            await eventually(
                lambda: inside.listing.run_hub.ready and inside.waits.inbox.ready, describe="all is read"
            )
            async with (
                reading_events(gateway.http, "/runs/watch") as runs,
                reading_events(gateway.http, "/waits/watch") as waits,
            ):
                run_id = await gateway.submit("invoice")
                mark = run_id.encode()
                await eventually(lambda: mark in runs.raw and mark in waits.raw, describe="it is sent")
            await gateway.reaches(run_id, "WAITING_HUMAN")
            answer = {"runId": run_id, "payload": {"decision": "rejected"}}
            assert (await gateway.http.post("/resume", json=answer)).status_code == 200
            assert (await gateway.ends(run_id))["status"] == "COMPLETED"
            await eventually(lambda: len(receiver.requests) == 2, describe="both are sent")
    assert {request.body["event"]["kind"] for request in receiver.requests} == {"opened", "answered"}
    assert violations(caplog) == []


async def test_a_run_is_resumed_and_old_ones_are_removed(
    installation: Installation, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    book, release = tmp_path / "book", tmp_path / "release"
    gateway_settings = installation.settings("gateway", run_retention_sec=1.0)
    async with running_gateway(gateway_settings) as gateway:
        params = {"book": str(book), "release": str(release)}
        run_id = await gateway.submit("interrupted-chain", params=params)
        async with serving_worker(installation.settings("worker", drain_timeout_sec=0)):
            await eventually(lambda: book.exists() and "two" in book.read_text(), describe="it began")
            # The report of its executor is stored a little later than the next task begins.
            journal = Journal(gateway.inside.connection)
            await eventually(lambda: journal.entries("default", run_id), describe="the first task is kept")
        release.touch()
        async with serving_worker(installation.settings("worker"), worker_id="second"):
            assert (await gateway.ends(run_id))["status"] == "COMPLETED"
        assert book.read_text().split().count("one") == 1, "the journal was read"

        async def gone() -> bool:
            return (await gateway.http.get(f"/runs/{run_id}")).status_code == 404

        await eventually(gone, describe="retention has removed the run")
    assert violations(caplog) == []


async def test_a_large_result_is_stored_read_and_removed(
    installation: Installation, caplog: pytest.LogCaptureFixture
) -> None:
    gateway_settings = installation.settings("gateway", run_retention_sec=1.0)
    async with (
        running_gateway(gateway_settings) as gateway,
        serving_worker(installation.settings("worker")),
    ):
        run = await gateway.run("returning-bytes", params={"size": 1_000_000})
        result = await gateway.http.get(f"/runs/{run['run_id']}/result")
        assert (result.status_code, len(result.content)) == (200, 1_000_000)

        async def gone() -> bool:
            return (await gateway.http.get(f"/runs/{run['run_id']}/result")).status_code == 404

        await eventually(gone, describe="retention has removed the run")
        objects = RunObjects(gateway.inside.connection)
        await eventually(
            lambda: _is_empty(objects, run["run_id"]), describe="retention has removed its objects"
        )
    assert violations(caplog) == []


async def _is_empty(objects: RunObjects, run_id: str) -> bool:
    return await objects.entries("default", run_id) == []


async def test_the_run_of_a_dead_worker_is_handed_over(
    installation: Installation, caplog: pytest.LogCaptureFixture
) -> None:
    """The gateway finds across accounts that the worker is not connected any more."""
    async with (
        running_gateway(installation.settings("gateway")) as gateway,
        idle_worker(installation.settings("worker"), basics.noop_flow, worker_id="lost") as lost,
    ):
        run_id = await gateway.submit("noop")
        await claimed_by(lost)
        known = gateway.inside.takeover._workers
        process = known._processes.get
        instance_id = lost._services.instance_id
        await eventually(
            lambda: (seen := process(instance_id)) and seen.was_connected, describe="the worker is seen"
        )
        await lost._services.connection.close()
        async with serving_worker(installation.settings("worker"), worker_id="heir"):
            run = await gateway.ends(run_id)
    assert (run["status"], run["worker_id"], run["attempt"]) == ("COMPLETED", "heir", 2)
    assert violations(caplog) == []


async def test_wheels_reach_the_workers(installation: Installation, caplog: pytest.LogCaptureFixture) -> None:
    settings: dict[str, Any] = {"wheel_sync_enabled": True, "wheel_sync_interval_sec": 0.5}
    async with running_gateway(installation.settings("gateway")) as gateway:
        await registered(gateway, content=greetings("0.1.0", "old"))
        async with serving_worker(installation.settings("worker", **settings)):
            await synced(gateway, last_result="ok", selected_count=1)
            assert await greeting(gateway) == "old"
            deleted = await gateway.http.delete("/wheels/greetings-0.1.0-py3-none-any.whl")
            assert deleted.status_code == 200
            await synced(gateway, last_result="ok", selected_count=0)
    assert violations(caplog) == []


async def test_hooks_receive_keep_and_repeat_deliveries(
    installation: Installation, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        running_gateway(installation.settings("gateway", secrets_keys=SECRETS_KEY)) as gateway,
        installation.client("admin") as (admin, _),
    ):
        hook = await a_hook(gateway.http, "github", overlap="skip")
        run_id = await hook.started(delivery_id="d1")
        assert (await hook.send(delivery_id="d1")).json() == {"run_id": run_id, "duplicate": True}
        kept = await hook.deliveries(2)
        path = f"/hooks/{hook.hook_id}/deliveries/{kept[0]['delivery_id']}"
        assert (await gateway.http.get(path)).status_code == 200
        assert (await gateway.http.post(f"{path}/redeliver")).json()["run_id"] == run_id
        assert (await gateway.http.post(f"/hooks/{hook.hook_id}/rotate")).status_code == 200
        assert (await gateway.http.delete(f"/hooks/{hook.hook_id}")).status_code == 200
        queue = await a_hook(gateway.http, "nats")
        await admin.publish(queue.record["subject"], b'{"n": 1}')
        [message] = await queue.deliveries(1)
        assert message["status"] == "started"
    assert violations(caplog) == []


async def test_keys_are_created_by_the_admin_and_required_by_the_gateway(
    installation: Installation, caplog: pytest.LogCaptureFixture
) -> None:
    key = await new_key(installation.settings("admin"))
    async with running_gateway(installation.settings("gateway", http_auth_mode="api_key")) as gateway:
        assert (await gateway.http.get("/runs")).status_code == 401
        assert (await gateway.http.get("/workers", headers=key.header)).status_code == 200
    assert violations(caplog) == []


async def test_the_sweep_requeues_a_lost_job_for_a_group_of_workers(
    installation: Installation, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_gateway(installation.settings("gateway")) as gateway:
        run_id = await gateway.submit("noop", tag="gpu")
        await eventually(
            lambda: gateway.inside.sweeper._queued.is_queued(run_id, min_generation=0), describe="it was seen"
        )
        async with installation.client("admin") as (admin, _):
            await admin.jetstream().purge_stream("PYOCO_WORK")
        async with serving_worker(installation.settings("gpu"), tags=["gpu"]):
            assert (await gateway.ends(run_id))["status"] == "COMPLETED"
    assert violations(caplog) == []


async def test_workers_of_a_group_serve_its_tags_only(installation: Installation) -> None:
    with pytest.raises(NatsUnavailable, match=r"CONSUMER.INFO.PYOCO_WORK.pyoco_worker_default"):
        await PyocoNatsWorker.connect(
            installation.settings("gpu"), flow_resolver=lambda _: None, tags=["default"], timeout_sec=3
        )


async def test_a_gateway_that_may_not_change_an_old_journal_waits_for_an_administrator(
    installation: Installation,
) -> None:
    async with installation.client("admin") as (admin, _):
        journal = (await admin.jetstream().stream_info("PYOCO_JOURNAL")).config
        await admin.jetstream().update_stream(journal.evolve(subjects=["pyoco.journal.*"]))
    async with running_gateway(installation.settings("gateway"), ready=False) as gateway:
        connection = gateway.inside.connection
        await eventually(lambda: "-admin adopt" in connection.state.detail, describe="it says what to do")
        assert not connection.ready
        async with connected(installation.settings("admin")):
            await connection.wait_ready(LIMIT_SEC)


async def test_a_worker_with_accounts_of_an_earlier_version_names_the_command(
    tmp_path: Path, config: NatsBackendConfig
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYOCO_LOAD_DOTENV", "0")
        accounts = json.loads(json.dumps(printed()).replace("pyoco.journal.*.*", "pyoco.journal.*"))
    server = SecuredNats(tmp_path / "secured", accounts=accounts)
    server.start()
    try:
        users = {user["user"]: user for account in accounts.values() for user in account["users"]}
        installation = Installation(server, users, config)
        async with connected(installation.settings("admin")) as admin:
            await ensure_consumer(admin, "default")
        with pytest.raises(NatsForbidden, match=r"pyoco.journal.default.*nats-config.*nats-setup"):
            await PyocoNatsWorker.connect(
                installation.settings("worker"), flow_resolver=lambda _: None, timeout_sec=LIMIT_SEC
            )
    finally:
        server.stop()
