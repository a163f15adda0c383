"""`pyoco-server-admin api-key` on a real NATS."""

import asyncio
import json
import socket
import time
from dataclasses import replace
from typing import Any

import httpx
import pytest

from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.unreadable_records import RecordKind
from tests.support.broker.stored_runs import snapshot
from tests.support.commands import call_command
from tests.support.programs import ADMIN, SERVER, run_command, running
from tests.support.running.gateway import running_gateway
from tests.support.running.hook_senders import a_hook
from tests.support.terminal import on_terminal
from tests.support.waiting import eventually, eventually_sync

ONCE = "The key is shown only this once."


def admin(nats_url: str, *words: str, pepper: str = "") -> Any:
    """The JSON that the command wrote."""
    done = call_command(ADMIN, "api-key", *words, PYOCO_NATS_URL=nats_url, PYOCO_AUTH_PEPPER=pepper)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_key_is_shown_once_accepted_by_a_gateway_and_revoked(nats_url: str) -> None:
    pepper = "pepper-for-the-test"
    made = run_command(
        *(ADMIN, "api-key", "create", "--tenant", "acme", "--name", "ci", "--scopes", "read,submit"),
        *("--group", "finance", "--group", "board"),
        PYOCO_NATS_URL=nats_url,
        PYOCO_AUTH_PEPPER=pepper,
    )
    assert made.returncode == 0, made.stderr
    assert ONCE in made.stderr
    key = json.loads(made.stdout)
    assert (key["tenant_id"], key["name"], key["scopes"]) == ("acme", "ci", ["submit", "read"])
    assert key["groups"] == ["finance", "board"]
    assert (key["state"], key["expires_at"], key["peppered"]) == ("active", None, True)
    assert key["api_key"].startswith(f"pyoco_{key['key_id']}_")
    settings = {"PYOCO_NATS_URL": nats_url, "PYOCO_HTTP_AUTH_MODE": "api_key", "PYOCO_AUTH_PEPPER": pepper}
    with running(SERVER, "up", "--port", "0", cwd=None, **settings) as (_, facts):
        headers = {"X-API-Key": key["api_key"]}
        with httpx.Client(base_url=facts["url"], headers=headers) as http:
            # 503 until its index is filled: a key of a tenant sees the workers of its runs.
            eventually_sync(lambda: http.get("/workers").status_code == 200, describe="the key is accepted")
            # The gateway writes it down after its next look, and is killed in the end.
            eventually_sync(
                lambda: admin(nats_url, "list", pepper=pepper)[0]["last_used_at"],
                describe="the use is written down",
            )
            gone = admin(nats_url, "revoke", "--key-id", key["key_id"], pepper=pepper)
            assert gone["state"] == "revoked"
            eventually_sync(lambda: http.get("/workers").status_code == 403, describe="the key is refused")
    [listed] = admin(nats_url, "list", pepper=pepper)
    assert listed["state"] == "revoked"
    assert key["created_at"] <= listed["last_used_at"] <= time.time()
    assert key["api_key"].rpartition("_")[2] not in json.dumps(listed)


def test_keys_are_listed_by_tenant_the_newest_first(nats_url: str) -> None:
    first = admin(nats_url, "create", "--tenant", "acme")
    before = time.time()
    second = admin(nats_url, "create", "--tenant", "acme", "--expires-in", "90d")
    after = time.time()
    admin(nats_url, "create", "--tenant", "other")
    listed = admin(nats_url, "list", "--tenant", "acme")
    assert [key["key_id"] for key in listed] == [second["key_id"], first["key_id"]]
    assert before <= second["expires_at"] - 90 * 86400 <= after
    assert [key["last_used_at"] for key in listed] == [None, None]
    assert {key["tenant_id"] for key in admin(nats_url, "list")} == {"acme", "other"}


async def test_a_rotated_key_keeps_its_id_and_gets_another_secret(config: NatsBackendConfig) -> None:
    words = ("create", "--tenant", "acme", "--scopes", "read")
    old = await asyncio.to_thread(admin, config.nats_url, *words)
    words = ("rotate", "--key-id", old["key_id"], "--overlap", "1h")
    new = await asyncio.to_thread(admin, config.nats_url, *words)
    assert new["key_id"] == old["key_id"]
    assert new["scopes"] == ["read"]
    assert new["api_key"] != old["api_key"]
    async with running_gateway(replace(config, http_auth_mode="api_key")) as gateway:
        for key in (old, new):
            answer = await gateway.http.get("/runs/none", headers={"X-API-Key": key["api_key"]})
            assert answer.status_code == 404


def test_a_terminal_shows_tables_and_the_key_on_one_line(nats_url: str) -> None:
    with on_terminal(ADMIN, "api-key", "create", "--tenant", "acme", PYOCO_NATS_URL=nats_url) as created:
        assert created.end() == 0, created.text
    assert "acme" in created.text
    assert "(all)" in created.text
    key = next(line for line in created.text.splitlines() if line.startswith("pyoco_"))
    assert len(key.strip()) == 87
    with on_terminal(ADMIN, "api-key", "list", PYOCO_NATS_URL=nats_url) as listed:
        assert listed.end() == 0, listed.text
    assert key[6:22] in listed.text
    assert "never" in listed.text


@pytest.mark.parametrize("command", ["revoke", "rotate"])
def test_an_unknown_key_is_an_error(nats_url: str, command: str) -> None:
    done = call_command(ADMIN, "api-key", command, "--key-id", "0" * 16, PYOCO_NATS_URL=nats_url)
    assert (done.returncode, done.stdout) == (1, "")
    assert "--key-id='0000000000000000': there is no such API key" in done.stderr
    assert "Example: pyoco-server-admin api-key" in done.stderr


def test_a_key_given_in_place_of_its_id_is_not_repeated(nats_url: str) -> None:
    key = admin(nats_url, "create", "--tenant", "acme")["api_key"]
    done = call_command(ADMIN, "api-key", "revoke", "--key-id", key, PYOCO_NATS_URL=nats_url)
    assert done.returncode == 1
    assert "the part between the two '_' of a key" in done.stderr
    assert key not in done.stderr


def test_an_unreachable_nats_is_reported_once_with_its_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        url = f"nats://127.0.0.1:{probe.getsockname()[1]}"
    done = call_command(ADMIN, "api-key", "list", PYOCO_NATS_URL=url)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("ERR-PYOCO-0003 ")
    assert done.stderr.count(url) == 1


def test_a_missing_pepper_is_noted(nats_url: str) -> None:
    plain = call_command(ADMIN, "api-key", "create", "--tenant", "acme", PYOCO_NATS_URL=nats_url)
    assert "PYOCO_AUTH_PEPPER is not set here" in plain.stderr
    done = call_command(
        *(ADMIN, "api-key", "create", "--tenant", "acme"), PYOCO_NATS_URL=nats_url, PYOCO_AUTH_PEPPER="x-y-z"
    )
    assert "PYOCO_AUTH_PEPPER" not in done.stderr
    assert "x-y-z" not in done.stdout + done.stderr


async def test_unreadable_records_are_listed_and_removed(config: NatsBackendConfig) -> None:
    run, good = snapshot(), snapshot()
    async with running_gateway(config) as gateway:
        inside = gateway.inside
        await inside.runs.store.create(good)
        await publish_acked(inside.connection, f"$KV.{config.runs_kv_bucket}.{run.run_id}", b"[" * 5_000)
        await publish_acked(inside.connection, f"{config.dlq_subject_prefix}.default", b"not JSON")

        async def unreadable(*words: str) -> Any:
            return await asyncio.to_thread(
                call_command, ADMIN, "unreadable", *words, PYOCO_NATS_URL=config.nats_url
            )

        listed = json.loads((await unreadable("--output", "json")).stdout)
        assert [(each["kind"], each["key"]) for each in listed] == [("run", run.run_id), ("dead_letter", "1")]
        assert listed[0]["problem"] == "nested more than 500 deep"

        kept = await unreadable("--remove", f"run/{good.run_id}")
        assert (kept.returncode, "can be read, and is not removed" in kept.stderr) == (1, True)
        for wrong in ("run/a b", "run/>", "log/x", "dead_letter/x", "run"):
            refused = await unreadable("--remove", wrong)
            assert (refused.returncode, f"{wrong!r}: " in refused.stderr) == (1, True), refused.stderr
        removed = await unreadable("--remove", f"run/{run.run_id}", "--remove", "dead_letter/1")
        assert removed.stdout == f"Removed run {run.run_id}.\nRemoved dead_letter 1.\n"
        assert json.loads((await unreadable("--output", "json")).stdout) == []
        assert (await gateway.http.get(f"/runs/{run.run_id}")).status_code == 404
        await inside.listing.lists.caught_up()
        assert inside.connection.unreadable.find(RecordKind.RUN, run.run_id) is None
        assert (await gateway.http.get(f"/runs/{good.run_id}")).status_code == 200


def new_secrets_key() -> str:
    made = call_command(ADMIN, "secrets", "create-key")
    assert made.returncode == 0, made.stderr
    assert "PYOCO_SECRETS_KEYS" in made.stderr
    return str(made.stdout.strip())


async def test_stored_secrets_are_encrypted_again_with_a_new_key(config: NatsBackendConfig) -> None:
    old, new = new_secrets_key(), new_secrets_key()

    async def rotate(keys: str) -> Any:
        return await asyncio.to_thread(
            call_command,
            *(ADMIN, "secrets", "rotate"),
            PYOCO_NATS_URL=config.nats_url,
            PYOCO_SECRETS_KEYS=keys,
        )

    async with running_gateway(replace(config, secrets_keys=old)) as gateway:
        hook = await a_hook(gateway.http, "github")
        assert (await rotate("")).returncode == 1
        wrong = await rotate(new)
        assert wrong.returncode == 1
        assert f"h.=.{hook.hook_id}: " in wrong.stdout
        done = await rotate(f"{new},{old}")
        assert done.stdout == "1 secrets encrypted again, 0 were under the first key already.\n"
        assert (await rotate(new)).stdout.startswith("0 secrets encrypted again, 1 were")

        async def is_refused() -> bool:
            refused = await hook.send()
            return refused.status_code == 503 and refused.json()["err_id"] == "ERR-PYOCO-0065"

        await eventually(is_refused, describe="a gateway with only the old key cannot read it any more")
    async with running_gateway(replace(config, secrets_keys=new)) as gateway:
        assert (await replace(hook, http=gateway.http).send()).status_code == 202
