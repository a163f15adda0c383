"""Our programs on the NATS data that the public package has left (a recording: tests/support/public)."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import nats
import pytest
from typer.testing import CliRunner, Result

from pyoco_server.admin_cli import app as admin_app
from pyoco_server.config import NatsBackendConfig
from tests.support.broker.nats_server import SecuredNats
from tests.support.public.package import PEPPER, Leftovers
from tests.support.public.record import RECORDING
from tests.support.public.store import read_store, restore_store
from tests.support.public.takeover import adopted_by_ours, check_everything_is_taken_over, our_worker
from tests.support.running.gateway import running_gateway
from tests.support.running.installation import Installation, printed
from tests.support.waiting import eventually

RECORDED = json.loads(RECORDING.read_text())
LEFT = Leftovers(**RECORDED["left"])


@pytest.fixture
async def store(config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch) -> NatsBackendConfig:
    """Settings with an account that has the recorded data."""
    await restore_store(config.nats_url, RECORDED["streams"])
    monkeypatch.setenv("PYOCO_LOAD_DOTENV", "0")
    monkeypatch.setenv("PYOCO_NATS_URL", config.nats_url)
    return config


async def admin(*arguments: str, **settings: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, admin_app, list(arguments), env=settings)


async def rows(*arguments: str) -> dict[str, dict[str, str]]:
    result = await admin("adopt", "--output", "json", *arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    assert ("Nothing was changed" in result.stderr) == ("--dry-run" in arguments)
    return {row["name"]: row for row in json.loads(result.stdout)}


async def test_runs_keys_and_wheels_are_taken_over(store: NatsBackendConfig) -> None:
    async with adopted_by_ours(store, LEFT) as ours:
        await check_everything_is_taken_over(ours, LEFT)
        # Without a tenant, and so only visible where no keys are required.
        assert (await ours.http.get(f"/runs/{LEFT.without_tag}")).status_code == 404
    async with running_gateway(store) as gateway:
        found = await gateway.get(LEFT.without_tag)
        assert (found["status"], found["tag"]) == ("FAILED", "")


async def test_adopt_lists_what_it_would_do_and_changes_nothing(store: NatsBackendConfig) -> None:
    before = await read_store(store.nats_url)
    listed = await rows("--dry-run")
    assert await read_store(store.nats_url) == before
    assert listed["KV_pyoco_runs"]["action"] == "change"
    assert "allow_direct: False -> True" in listed["KV_pyoco_runs"]["detail"]
    assert "max_age: 15000000000 -> 0" in listed["KV_pyoco_workers"]["detail"]
    assert listed["PYOCO_JOURNAL"]["action"] == "create"
    assert listed["pyoco_workers_default"]["action"] == "replace"
    (key,) = (name for name, row in listed.items() if row["kind"] == "api key")
    assert key in LEFT.api_key
    assert "6 stored: all are trusted" in listed["pyoco_runs"]["detail"]


async def test_adopt_changes_it_once_and_everything_works(store: NatsBackendConfig) -> None:
    await rows()
    again = await rows("--dry-run")
    assert {row["action"] for row in again.values()} == {"keep"}
    assert {"pyoco_worker_default", "pyoco_worker_gpu", "pyoco_runs"} == set(again)
    async with adopted_by_ours(store, LEFT) as ours:
        await check_everything_is_taken_over(ours, LEFT)
        # Nothing unsigned that is stored from now on is trusted.
        assert "it was decided" in (await rows("--dry-run"))["pyoco_runs"]["detail"]


@pytest.mark.parametrize("adopted", [False, True])
async def test_a_key_can_be_rotated_and_revoked(store: NatsBackendConfig, adopted: bool) -> None:
    key_id = LEFT.api_key.removeprefix("pyoco_").partition(".")[0]
    if adopted:
        await rows()
    secured = replace(store, http_auth_mode="api_key", auth_pepper=PEPPER)
    async with running_gateway(secured) as gateway:

        async def status_of(key: str) -> int:
            return (await gateway.http.get("/workers", headers={"X-API-Key": key})).status_code

        async def is_accepted(key: str, *, accepted: bool) -> None:
            async def so() -> bool:
                return (await status_of(key) == 200) == accepted

            await eventually(so, describe=f"the key is {'accepted' if accepted else 'rejected'}")

        assert await status_of(LEFT.api_key) == 200
        assert await status_of(LEFT.api_key[:-1] + ("A" if LEFT.api_key[-1] != "A" else "B")) == 403
        rotate = ["api-key", "rotate", "--key-id", key_id, "--overlap", "1h", "--output", "json"]
        new_key = json.loads((await admin(*rotate, PYOCO_AUTH_PEPPER=PEPPER)).stdout)["api_key"]
        await is_accepted(new_key, accepted=True)
        assert await status_of(LEFT.api_key) == 200, "for another hour"
        assert (await admin("api-key", "revoke", "--key-id", key_id)).exit_code == 0
        await is_accepted(new_key, accepted=False)
        assert await status_of(LEFT.api_key) == 403
    assert not [
        message
        for stream in await read_store(store.nats_url)
        for message in stream["messages"]
        if "api_keys" in message["subject"] and message["data"]
    ], "nothing is left that could come back"


# With the rights of nats-config


@pytest.fixture
def confined(tmp_path: Path, store: NatsBackendConfig) -> Iterator[Installation]:
    accounts = printed("--worker", "worker=default")
    server = SecuredNats(tmp_path / "confined", accounts=accounts)
    server.start()
    users = {user["user"]: user for account in accounts.values() for user in account["users"]}
    yield Installation(server, users, store)
    server.stop()


async def test_without_rights_the_start_says_what_is_missing_and_adopt_does_it(
    confined: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A submit that comes before the cause is known waits no longer than this.
    monkeypatch.setattr("pyoco_server.runs.lifecycle.submission._BUDGET_SEC", 1.0)
    known = confined.users["admin"]
    url = confined.server.url.replace("nats://", f"nats://{known['user']}:{known['password']}@")
    await restore_store(url, RECORDED["streams"])
    async with running_gateway(confined.settings("gateway"), ready=False) as gateway:

        async def refusal() -> str | None:
            response = await gateway.http.post("/runs", json={"flow_name": "adder"})
            assert response.status_code == 503, response.text
            return response.text if "allow_direct" in response.text else None

        said = await eventually(refusal, describe="the gateway says what is missing")
        assert "KV_pyoco_runs: `allow_direct` is false, expected true" in said
        assert "pyoco-server-admin adopt" in said
        monkeypatch.setenv("PYOCO_NATS_URL", confined.server.url)
        monkeypatch.setenv("PYOCO_NATS_USER", known["user"])
        monkeypatch.setenv("PYOCO_NATS_PASSWORD", known["password"])
        assert (await rows())["pyoco_workers_default"]["action"] == "replace"
        await gateway.inside.connection.wait_ready(None)
        async with our_worker(confined.settings("worker"), tags=["default"]):
            assert (await gateway.ends(LEFT.queued))["status"] == "COMPLETED"


# What cannot be taken over


async def _api(store: NatsBackendConfig, endpoint: str, body: dict[str, Any] | None = None) -> None:
    client = await nats.connect(store.nats_url)
    try:
        reply = await client.request(f"$JS.API.{endpoint}", json.dumps(body).encode() if body else b"")
        assert "error" not in json.loads(reply.data), reply.data
    finally:
        await client.close()


async def test_a_stream_that_cannot_be_changed_is_named(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A submit that comes before the cause is known waits no longer than this.
    monkeypatch.setattr("pyoco_server.runs.lifecycle.submission._BUDGET_SEC", 1.0)
    work = {"name": "PYOCO_WORK", "subjects": ["pyoco.work.>"], "retention": "limits", "storage": "file"}
    await _api(config, "STREAM.CREATE.PYOCO_WORK", work)
    async with running_gateway(config, ready=False) as gateway:

        async def refusal() -> str | None:
            response = await gateway.http.post("/runs", json={"flow_name": "adder"})
            assert response.status_code == 503, response.text
            return response.text if "retention" in response.text else None

        said = await eventually(refusal, describe="the gateway names the option")
        assert "PYOCO_WORK: `retention` is limits, expected workqueue" in said
    result = await admin("adopt", "--nats-url", config.nats_url, PYOCO_LOAD_DOTENV="0")
    assert result.exit_code != 0
    assert "cannot be taken over" in str(result.exception)


async def test_no_submit_is_accepted_that_no_worker_can_run(config: NatsBackendConfig) -> None:
    async with running_gateway(config):
        pass
    consumer = {"durable_name": "everything", "ack_policy": "explicit", "filter_subject": "pyoco.work.>"}
    body = {"stream_name": "PYOCO_WORK", "config": consumer}
    await _api(config, "CONSUMER.DURABLE.CREATE.PYOCO_WORK.everything", body)
    async with running_gateway(config) as gateway:
        refused = await gateway.http.post("/runs", json={"flow_name": "adder"})
        assert refused.status_code == 503
        assert (
            "the consumer everything of the stream PYOCO_WORK takes the jobs of pyoco.work.>" in refused.text
        )
        assert (await gateway.http.get("/runs")).json() == []
        await _api(config, "CONSUMER.DELETE.PYOCO_WORK.everything")
        assert (await gateway.http.post("/runs", json={"flow_name": "adder"})).status_code == 200
