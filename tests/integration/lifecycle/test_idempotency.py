"""One run per idempotency key: retries, races and crashes."""

import asyncio
import logging
import time
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from msgspec import structs

from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.stores.runs.idempotency_keys import (
    IdempotencyKey,
    IdempotencyKeys,
    KeyRecord,
    StoredKey,
)
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.runs.run_models import Job, RunSnapshot, RunStatus, pending_snapshot
from pyoco_server.runs.lifecycle import idempotency
from pyoco_server.runs.lifecycle.idempotency import KeyedRequests, payload_digest
from pyoco_server.runs.lifecycle.submission import new_job
from pyoco_server.runs.lifecycle.withdrawal import remove_unstarted
from tests.support.broker.journals import journalled_runs
from tests.support.broker.nats_server import NatsServer
from tests.support.inspection import queue_is_empty, stored_run_ids
from tests.support.problems import assert_problem
from tests.support.programs import SERVER, running
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.workers import serving_worker
from tests.support.settings import for_hanging_nats
from tests.support.waiting import LIMIT_SEC, NEVER_SEC, eventually, eventually_equals

KEY = "order-4711"
YAML = "version: 1\nflow: {graph: load}\ntasks:\n  load: {callable: 'm:load'}\n"


@pytest.fixture
def key() -> str:
    """A key of one test, on a gateway that others use."""
    return f"order-{uuid4().hex}"


async def post(gateway: RunningGateway, key: str = KEY, **fields: Any) -> httpx.Response:
    body = {"flow_name": "noop", **fields}
    return await gateway.http.post("/runs", json=body, headers={"Idempotency-Key": key})


async def run_of(gateway: RunningGateway, key: str = KEY, **fields: Any) -> str:
    """Retry until there is a response."""

    async def accepted() -> str | None:
        try:
            response = await post(gateway, key, **fields)
        except httpx.TransportError:
            return None
        assert response.status_code in (200, 503), response.text
        return response.json()["run_id"] if response.status_code == 200 else None

    return await eventually(accepted, describe=f"{key} is accepted")


async def jobs_on_queue(gateway: RunningGateway) -> int:
    context = gateway.inside.connection.client.jetstream()
    return (await context.stream_info(gateway.inside.config.work_stream)).state.messages


async def leave_unaccepted(gateway: RunningGateway, job: Job, key: str = KEY, *, age_sec: float) -> StoredKey:
    """The key of a gateway that was killed before it stored the run."""
    record = KeyRecord(run_id=job.run_id, digest=payload_digest(job), touched_at=time.time() - age_sec)
    return await IdempotencyKeys(gateway.inside.connection).create(IdempotencyKey(key), record)


def accepted(response: httpx.Response) -> dict[str, Any]:
    """The body without its warnings, which tell of the moment: there is no worker."""
    body: dict[str, Any] = response.json()
    assert {each["code"] for each in body.pop("warnings", [])} <= {"no_worker"}
    return body


async def test_a_retry_returns_the_first_run(gateway: RunningGateway) -> None:
    first = await post(gateway, params={"a": 1, "b": {"c": 2, "d": 3}})
    again = await post(gateway, params={"b": {"d": 3, "c": 2}, "a": 1})
    assert (first.status_code, again.status_code) == (200, 200)
    assert accepted(first) == accepted(again) == {"run_id": first.json()["run_id"], "status": "PENDING"}
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    assert await stored_run_ids(gateway) == {first.json()["run_id"]}
    assert await jobs_on_queue(gateway) == 1


@pytest.mark.asyncio(loop_scope="module")
async def test_other_keys_and_none_are_other_runs(shared_gateway: RunningGateway, key: str) -> None:
    responses = [await post(shared_gateway, key), await post(shared_gateway, key + "2")]
    responses += [await shared_gateway.http.post("/runs", json={"flow_name": "noop"}) for _ in range(2)]
    assert len({response.json()["run_id"] for response in responses}) == 4


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    "other",
    [{"flow_name": "other"}, {"params": {"a": 2}}, {"tag": "gpu"}, {"tags": ["x"]}, {"timeout_sec": 5}],
    ids=lambda other: next(iter(other)),
)
async def test_another_payload_is_refused(
    shared_gateway: RunningGateway, key: str, other: dict[str, Any]
) -> None:
    first = await post(shared_gateway, key, params={"a": 1})
    stored = await stored_run_ids(shared_gateway)
    problem = assert_problem(await post(shared_gateway, key, **{"params": {"a": 1}, **other}), 409, 26)
    assert key in problem["detail"]
    assert first.json()["run_id"] in problem["detail"]
    assert await stored_run_ids(shared_gateway) == stored


@pytest.mark.asyncio(loop_scope="module")
async def test_explicit_defaults_are_the_same_payload(shared_gateway: RunningGateway, key: str) -> None:
    first = await post(shared_gateway, key)
    again = await post(shared_gateway, key, tag="default", tags=["default"], params={}, timeout_sec=None)
    assert again.json() == first.json()


async def test_a_flow_yaml_has_a_key_too(gateway: RunningGateway) -> None:
    async def post_yaml(source: str) -> httpx.Response:
        return await gateway.http.post(
            "/runs/yaml",
            files={"workflow": ("flow.yaml", source)},
            data={"flow_name": "noop"},
            headers={"Idempotency-Key": KEY},
        )

    first, again = await post_yaml(YAML), await post_yaml(YAML)
    assert (again.json(), again.headers["idempotent-replayed"]) == (first.json(), "true")
    assert_problem(await post_yaml(YAML + "# edited\n"), 409, 26)
    assert_problem(await post(gateway), 409, 26)
    assert await journalled_runs(gateway) == await stored_run_ids(gateway) == {first.json()["run_id"]}


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("invalid", ["", "a b", "x" * 256, "ключ".encode(), b"caf\xe9", "tab\tbed"])
async def test_an_invalid_key_is_refused(shared_gateway: RunningGateway, invalid: str | bytes) -> None:
    stored = await stored_run_ids(shared_gateway)
    raw = invalid.encode() if isinstance(invalid, str) else invalid
    response = await shared_gateway.http.post(
        "/runs", json={"flow_name": "noop"}, headers=[(b"Idempotency-Key", raw)]
    )
    [error] = assert_problem(response, 422, 2)["errors"]
    assert error["field"] == "Idempotency-Key"
    assert "1 to 255 visible ASCII characters" in error["message"]
    assert await stored_run_ids(shared_gateway) == stored


@pytest.mark.asyncio(loop_scope="module")
async def test_two_keys_at_once_are_refused(shared_gateway: RunningGateway) -> None:
    headers = [("Idempotency-Key", "one"), ("Idempotency-Key", "two")]
    response = await shared_gateway.http.post("/runs", json={"flow_name": "noop"}, headers=headers)
    [error] = assert_problem(response, 422, 2)["errors"]
    assert (error["field"], "more than once" in error["message"]) == ("Idempotency-Key", True)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("unusual", ["!", "~" * 255, "*.>", "a.b.c"])
async def test_any_visible_ascii_is_a_key(shared_gateway: RunningGateway, unusual: str) -> None:
    first = await post(shared_gateway, unusual)
    assert (await post(shared_gateway, unusual)).json() == first.json()


@pytest.mark.asyncio(loop_scope="module")
async def test_a_refused_submission_does_not_use_its_key(shared_gateway: RunningGateway, key: str) -> None:
    assert_problem(await post(shared_gateway, key, params={"text": "x" * 300_000}), 422, 2)
    assert (await post(shared_gateway, key)).status_code == 200


@pytest.mark.asyncio(loop_scope="module")
async def test_keys_expire(shared_gateway: RunningGateway) -> None:
    context = shared_gateway.inside.connection.client.jetstream()
    kept_sec = (await context.stream_info("KV_pyoco_idempotency")).config.max_age
    assert kept_sec == shared_gateway.inside.config.idempotency_ttl_sec == 24 * 3600


async def test_fifty_concurrent_submissions_on_two_gateways_are_one_run(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    async with running_gateway(config) as other:
        responses = await asyncio.gather(*(post(each) for each in [gateway, other] * 25))
    assert {response.status_code for response in responses} == {200}
    run_ids = {response.json()["run_id"] for response in responses}
    assert len(run_ids) == 1
    assert sum("idempotent-replayed" not in response.headers for response in responses) == 1
    assert await stored_run_ids(gateway) == run_ids
    assert await jobs_on_queue(gateway) == 1


async def test_concurrent_requests_wait_for_the_first(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = gateway.inside.runs.submitter._queue
    publish, reached, go_on = queue.publish, asyncio.Event(), asyncio.Event()

    async def slow_publish(job: Job, *, run_revision: int, encoded: bytes) -> None:
        reached.set()
        await go_on.wait()
        await publish(job, run_revision=run_revision, encoded=encoded)

    monkeypatch.setattr(queue, "publish", slow_publish)
    first = asyncio.create_task(post(gateway))
    await reached.wait()
    second = asyncio.create_task(post(gateway))
    done, _ = await asyncio.wait([first, second], timeout=0.3)
    assert not done, "the second was answered although the first run was not queued yet"
    go_on.set()
    assert (await first).json() == (await second).json()


async def test_a_request_that_waits_too_long_is_a_503(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "_WAIT_SEC", 0.1)
    monkeypatch.setattr(idempotency, "ABANDONED_SEC", NEVER_SEC)
    await leave_unaccepted(gateway, new_job(flow_name="noop", tag="default"), age_sec=0)
    response = await post(gateway)
    assert "is in progress" in assert_problem(response, 503, 3)["detail"]
    assert response.headers["retry-after"] == "1"
    assert await stored_run_ids(gateway) == set()


async def test_a_gateway_killed_before_its_run_was_stored_leaves_a_usable_key(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "ABANDONED_SEC", NEVER_SEC)
    lost = new_job(flow_name="noop", tag="default")
    await leave_unaccepted(gateway, lost, age_sec=0)
    with monkeypatch.context() as patched:
        patched.setattr(idempotency, "_WAIT_SEC", 0.1)
        assert (await post(gateway)).status_code == 503
    # As if that long had passed.
    monkeypatch.setattr(idempotency, "ABANDONED_SEC", 0.0)
    run_id = await run_of(gateway)
    assert run_id != lost.run_id
    assert await stored_run_ids(gateway) == {run_id}
    assert (await post(gateway)).json()["run_id"] == run_id


async def test_a_run_that_was_stored_and_not_accepted_is_replaced(gateway: RunningGateway) -> None:
    """Whether its job is queued is unknown, so the run, which was returned to no client, is removed."""
    lost = new_job(flow_name="noop", tag="default", workflow_yaml=YAML.encode())
    await leave_unaccepted(gateway, lost, age_sec=60)
    await gateway.inside.runs.submitter._journal.keep_document("default", lost.run_id, YAML.encode())
    await gateway.inside.runs.store.create(pending_snapshot(lost))
    # Another payload, which the key has from now on.
    responses = await asyncio.gather(*(post(gateway, params={"a": 1}) for _ in range(10)))
    [run_id] = {response.json()["run_id"] for response in responses}
    assert run_id != lost.run_id
    assert await stored_run_ids(gateway) == {run_id}
    assert await journalled_runs(gateway) == set()
    assert_problem(await post(gateway), 409, 26)


@pytest.mark.parametrize("status", [RunStatus.RUNNING, RunStatus.COMPLETED, RunStatus.CANCELLED])
async def test_a_started_run_is_accepted_for_its_key(gateway: RunningGateway, status: RunStatus) -> None:
    begun = new_job(flow_name="noop", tag="default")
    await leave_unaccepted(gateway, begun, age_sec=60)
    await gateway.inside.runs.store.create(structs.replace(pending_snapshot(begun), status=status))
    responses = await asyncio.gather(*(post(gateway) for _ in range(10)))
    assert {response.json()["run_id"] for response in responses} == {begun.run_id}
    assert await stored_run_ids(gateway) == {begun.run_id}
    assert await jobs_on_queue(gateway) == 0


async def test_a_paused_gateway_does_not_return_a_replaced_run(
    config: NatsBackendConfig, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "ABANDONED_SEC", 0.2)
    queue = gateway.inside.runs.submitter._queue
    publish, asleep, wake_up = queue.publish, asyncio.Event(), asyncio.Event()

    async def sleeping_publish(job: Job, *, run_revision: int, encoded: bytes) -> None:
        asleep.set()
        await wake_up.wait()
        await publish(job, run_revision=run_revision, encoded=encoded)

    monkeypatch.setattr(queue, "publish", sleeping_publish)
    async with running_gateway(config) as other:
        first = asyncio.create_task(post(gateway))
        await asleep.wait()
        run_id = await run_of(other)
        wake_up.set()
        assert_problem(await first, 503, 3)
        monkeypatch.undo()
        assert (await post(gateway)).json()["run_id"] == run_id
        async with serving_worker(config):
            assert (await gateway.ends(run_id))["status"] == "COMPLETED"
            assert await eventually(lambda: queue_is_empty(gateway), describe="no job is left")
    assert await stored_run_ids(gateway) == {run_id}


async def test_a_snapshot_after_its_key_was_settled_is_refused(gateway: RunningGateway) -> None:
    slept = new_job(flow_name="noop", tag="default")
    held = await leave_unaccepted(gateway, slept, age_sec=60)
    run_id = await run_of(gateway)
    with pytest.raises(RevisionConflict):
        await gateway.inside.runs.store.create(pending_snapshot(slept))
    with pytest.raises(RevisionConflict):
        await KeyedRequests(gateway.inside.connection).accept(held)
    assert await stored_run_ids(gateway) == {run_id}


async def test_a_run_being_removed_cannot_be_accepted(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept = new_job(flow_name="noop", tag="default")
    held = await leave_unaccepted(gateway, slept, age_sec=60)
    await gateway.inside.runs.store.create(pending_snapshot(slept))
    refused = asyncio.Event()

    async def with_a_sleeper_that_wakes_up(*arguments: Any) -> RunSnapshot | None:
        with pytest.raises(RevisionConflict):
            await KeyedRequests(gateway.inside.connection).accept(held)
        refused.set()
        return await remove_unstarted(*arguments)

    monkeypatch.setattr(idempotency, "remove_unstarted", with_a_sleeper_that_wakes_up)
    assert await run_of(gateway) != slept.run_id
    assert refused.is_set()


async def test_an_accept_with_a_lost_ack_is_not_withdrawn(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    keys = gateway.inside.runs.submitter._keys
    accept = keys.accept

    async def unheard(held: StoredKey) -> None:
        await accept(held)
        raise NatsUnavailable("the response was lost")

    monkeypatch.setattr(keys, "accept", unheard)
    first = await post(gateway)
    assert first.status_code == 200
    assert "ERR-PYOCO-0004" not in err_ids(caplog)
    again = await post(gateway)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.json() == first.json()
    assert await stored_run_ids(gateway) == {again.json()["run_id"]}


def err_ids(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [getattr(record, "err_id", "") for record in caplog.records]


@pytest.mark.parametrize("way", ["kill", "pause"])
async def test_retries_over_an_outage_of_nats_make_one_run_each(
    config: NatsBackendConfig, own_nats: NatsServer, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    caplog.set_level(logging.INFO)
    config = for_hanging_nats(config, own_nats.url)
    keys = [f"key-{number}" for number in range(72)]
    refused: list[str] = []
    under_way, is_away = asyncio.Event(), asyncio.Event()

    async def client(gateway: RunningGateway, other: RunningGateway, numbers: list[str]) -> dict[str, str]:
        accepted: dict[str, str] = {}
        for key in numbers:
            if key == numbers[-1]:
                # At the latest this one meets the outage.
                await is_away.wait()
            response = await post(gateway, key)
            if response.status_code == 200:
                accepted[key] = response.json()["run_id"]
            else:
                refused.append(key)
                accepted[key] = await run_of(other, key)
            # A key always returns the same run.
            assert await run_of(other, key) == accepted[key]
            under_way.set()
        return accepted

    async def disturb() -> None:
        await under_way.wait()
        if way == "pause":
            with own_nats.paused():
                await is_felt()
        else:
            await asyncio.to_thread(own_nats.kill)
            await is_felt()
            await asyncio.to_thread(own_nats.start)

    async def is_felt() -> None:
        is_away.set()
        await eventually(lambda: refused, describe="a request is refused")

    async with running_gateway(config) as one, running_gateway(config) as two:
        pairs = [(one, two), (two, one)] * 6
        responses, _ = await asyncio.gather(
            asyncio.gather(*(client(*pair, keys[n::12]) for n, pair in enumerate(pairs))), disturb()
        )
        returned = {key: run_id for accepted in responses for key, run_id in accepted.items()}
        assert len(set(returned.values())) == len(keys)
        await eventually_equals(
            lambda: stored_run_ids(one), set(returned.values()), describe="one run per key"
        )


async def test_a_gateway_killed_under_load_leaves_one_run_per_key(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every key is sent to a gateway that crashes, then to another one; each run is executed once."""
    monkeypatch.setattr(idempotency, "ABANDONED_SEC", 2.5)
    keys = [f"key-{number}" for number in range(80)]
    executed = tmp_path / "executed"
    answered: dict[str, str] = {}

    def fields(key: str) -> dict[str, Any]:
        return {"flow_name": "counting", "params": {"counter": str(executed / key), "seconds": 0}}

    with running(SERVER, "up", "--port", "0", "--nats-url", config.nats_url, cwd=tmp_path) as (
        program,
        returned,
    ):
        async with httpx.AsyncClient(base_url=returned["url"], timeout=LIMIT_SEC) as http:
            dying = RunningGateway(http, gateway.inside)

            async def send(numbers: list[str]) -> None:
                for key in numbers:
                    try:
                        answered[key] = (await post(dying, key, **fields(key))).json()["run_id"]
                    # AttributeError: what anyio makes of a connection that uvloop lost in the making.
                    except (httpx.TransportError, AttributeError):
                        return
                    if len(answered) == len(keys) // 2:
                        program.process.kill()

            await run_of(dying, "first", flow_name="noop", tag="nobody")  # it is ready now
            await asyncio.gather(*(send(keys[n::16]) for n in range(16)))
    assert len(keys) // 2 <= len(answered) < len(keys)

    executed.mkdir()
    told_now = {key: await run_of(gateway, key, **fields(key)) for key in keys}
    assert {key: told_now[key] for key in answered} == answered
    async with serving_worker(config, concurrency=2):
        ended = [await gateway.ends(run_id) for run_id in told_now.values()]
        assert Counter(run["status"] for run in ended) == {"COMPLETED": len(keys)}
        await eventually_equals(
            lambda: jobs_on_queue(gateway), 1, describe="the one that no worker serves is left"
        )
    assert len(await stored_run_ids(gateway)) == len(keys) + 1
    assert {path.name: path.read_text() for path in executed.iterdir()} == dict.fromkeys(keys, "executed\n")
