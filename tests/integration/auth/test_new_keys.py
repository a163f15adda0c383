"""A key that was just created is accepted at once, and unknown keys cost NATS a bounded number of reads."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from pyoco_server.auth import api_key_cache
from pyoco_server.auth.tokens import digest_of, new_token
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.stream_reads import StreamMessage, read_batch, stream_state
from pyoco_server.broker.stores import api_keys
from pyoco_server.broker.stores.api_keys import ApiKeyMirror
from pyoco_server.config import NatsBackendConfig
from tests.support.broker.connections import connected
from tests.support.broker.nats_server import NatsServer
from tests.support.running.api_keys import Key, new_key, revoke, rotate, without_background_refreshes
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.settings import for_hanging_nats
from tests.support.waiting import eventually

KEYS = 50


@pytest.fixture
def config(config: NatsBackendConfig) -> NatsBackendConfig:
    return replace(config, http_auth_mode="api_key")


@pytest.fixture
async def admin(config: NatsBackendConfig) -> AsyncIterator[Connection]:
    """Not the connection of a gateway: keys are created by another process."""
    async with connected(config) as connection:
        yield connection


@pytest.fixture
async def gateway(config: NatsBackendConfig, admin: Connection) -> AsyncIterator[RunningGateway]:
    async with running_gateway(config) as running:
        await running.inside.authentication.keys.confirm()
        yield running


@pytest.fixture
async def lookups_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requested before the gateway."""
    without_background_refreshes(monkeypatch)


@pytest.fixture
def polls(gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When keys were read from NATS."""
    begun: list[float] = []
    poll = ApiKeyMirror.poll

    async def counted(mirror: ApiKeyMirror) -> bool:
        begun.append(time.monotonic())
        return await poll(mirror)

    monkeypatch.setattr(ApiKeyMirror, "poll", counted)
    return begun


def unknown_key() -> Key:
    token = new_token()
    return Key(token.key_id, token.text())


async def sent(gateway: RunningGateway, key: Key) -> httpx.Response:
    return await gateway.http.get("/key", headers=key.header)


async def status(gateway: RunningGateway, key: Key) -> int:
    return (await sent(gateway, key)).status_code


async def refusal(gateway: RunningGateway, key: Key) -> str:
    response = await sent(gateway, key)
    assert (response.status_code, response.json()["err_id"]) == (403, "ERR-PYOCO-0015")
    detail: str = response.json()["detail"]
    return detail


async def test_new_and_rotated_keys_are_accepted_at_once(gateway: RunningGateway, admin: Connection) -> None:
    created, rotated = [], []
    for _ in range(KEYS):
        key = await new_key(admin)
        created.append(await status(gateway, key))
        rotated.append(await status(gateway, await rotate(admin, key)))
    assert created == [200] * KEYS
    assert rotated == [200] * KEYS


async def test_new_keys_are_accepted_at_once_by_each_of_two_gateways(
    config: NatsBackendConfig, gateway: RunningGateway, admin: Connection
) -> None:
    async with running_gateway(config) as second:
        await second.inside.authentication.keys.confirm()
        for _ in range(KEYS):
            key = await new_key(admin)
            used = (status(each, key) for each in (gateway, second, gateway, second))
            assert await asyncio.gather(*used) == [200] * 4


async def test_new_key_opens_an_event_stream_at_once(
    lookups_only: None, gateway: RunningGateway, admin: Connection
) -> None:
    await eventually(lambda: gateway.inside.listing.index.ready, describe="lists can be watched")
    key = await new_key(admin)
    async with gateway.http.stream("GET", "/runs/watch", headers=key.header) as watched:
        assert watched.status_code == 200


# What stays refused


async def test_key_that_ended_before_its_first_use_is_refused(
    lookups_only: None, gateway: RunningGateway, admin: Connection
) -> None:
    revoked, expired = await new_key(admin), await new_key(admin, expires_at=time.time() - 1)
    replaced = await new_key(admin)
    await revoke(admin, revoked)
    new = await rotate(admin, replaced)
    assert "it was revoked" in await refusal(gateway, revoked)
    assert "it has expired" in await refusal(gateway, expired)
    assert "there is no such key" in await refusal(gateway, replaced)
    assert await status(gateway, new) == 200


async def test_stale_replica_does_not_bring_a_revoked_key_back(
    lookups_only: None, gateway: RunningGateway, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await new_key(admin)
    assert await status(gateway, key) == 200
    stored = await stream_state(admin, f"KV_{admin.config.auth_kv_bucket}")
    as_created = await read_batch(admin, f"KV_{admin.config.auth_kv_bucket}", ">")
    await revoke(admin, key)
    await gateway.inside.authentication.keys.confirm()
    assert "it was revoked" in await refusal(gateway, key)

    async def stale(*_: Any, after: int = 0, **__: Any) -> list[StreamMessage]:
        return [message for message in as_created if after < message.sequence <= stored.last_sequence]

    monkeypatch.setattr(api_keys, "read_batch", stale)
    # The whole bucket is read again, of which this replica has the key as it was.
    gateway.inside.connection.interruptions += 1
    assert await status(gateway, await new_key(admin)) == 503
    assert "it was revoked" in await refusal(gateway, key)


async def test_replica_that_lags_for_a_moment_does_not_refuse_a_new_key(
    lookups_only: None, gateway: RunningGateway, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    missed: list[int] = []

    async def lagging(
        connection: Connection, stream: str, subject: str, *, after: int
    ) -> list[StreamMessage]:
        if not missed:
            missed.append(after)
            return []
        return await read_batch(connection, stream, subject, after=after)

    key = await new_key(admin)
    monkeypatch.setattr(api_keys, "read_batch", lagging)
    assert await status(gateway, key) == 200
    assert missed


# Without NATS


async def test_while_nats_is_away_nobody_knows_whether_a_key_is_valid(
    config: NatsBackendConfig, own_nats: NatsServer, lookups_only: None
) -> None:
    async with running_gateway(replace(config, nats_url=own_nats.url)) as gateway:
        key = await new_key(gateway.inside.connection)
        assert await status(gateway, key) == 200
        own_nats.stop()
        assert await status(gateway, unknown_key()) == 503
        assert await status(gateway, key) == 200
        own_nats.start()
        await gateway.inside.connection.wait_ready(60)
        assert await status(gateway, await new_key(gateway.inside.connection)) == 200


@pytest.mark.parametrize("trust_sec", [1.0, 3600.0])
async def test_while_nats_hangs_the_lookup_of_a_key_ends(
    config: NatsBackendConfig, own_nats: NatsServer, monkeypatch: pytest.MonkeyPatch, trust_sec: float
) -> None:
    """Whether the keys that the gateway has are too old by then or not."""
    monkeypatch.setattr(api_key_cache, "TRUST_SEC", trust_sec)
    async with running_gateway(for_hanging_nats(config, own_nats.url)) as gateway:
        await gateway.inside.authentication.keys.confirm()
        with own_nats.paused():
            refused = await asyncio.gather(*(status(gateway, unknown_key()) for _ in range(20)))
    assert refused == [503] * 20


# Floods


async def test_flood_of_unknown_keys_costs_a_bounded_number_of_reads(
    lookups_only: None, gateway: RunningGateway, admin: Connection, polls: list[float]
) -> None:
    keys = gateway.inside.authentication.keys
    began = time.monotonic()
    for _ in range(30):
        flood, new = [unknown_key() for _ in range(20)], await new_key(admin)
        *refused, accepted = await asyncio.gather(*(status(gateway, each) for each in [*flood, new]))
        assert (set(refused), accepted) == ({403}, 200)
    # As the docs say. The time includes stalls of the machine, during which nothing is read.
    assert 1 <= len(polls) <= 2 + 40 * (time.monotonic() - began)
    assert len(keys._verified) <= 1, "only of what is valid, since the last change"
    assert (keys._lookups._waiting, keys._lookups._tasks, keys._confirmations) == (0, set(), [])


async def test_malformed_and_known_keys_cost_no_read(
    lookups_only: None, gateway: RunningGateway, admin: Connection, polls: list[float]
) -> None:
    valid, revoked = await new_key(admin), await new_key(admin)
    await revoke(admin, revoked)
    assert await status(gateway, valid) == 200
    polls.clear()
    for text in ("no key", valid.text[:-1], f"{valid.text}0", "pyoco_*_>"):
        assert "it does not have the form" in await refusal(gateway, Key("", text))
    assert "it was revoked" in await refusal(gateway, revoked)
    assert await status(gateway, valid) == 200
    assert polls == []


async def test_unknown_id_and_invalid_secret_take_the_same_steps(
    lookups_only: None,
    gateway: RunningGateway,
    admin: Connection,
    polls: list[float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So that the time of a refusal does not tell which ids exist."""
    hashed: list[str] = []

    def counted(secret: str, salt: str, pepper: bytes) -> str:
        hashed.append(secret)
        return digest_of(secret, salt, pepper)

    known = await new_key(admin)
    assert await status(gateway, known) == 200
    monkeypatch.setattr(api_key_cache, "digest_of", counted)
    steps = []
    for token in (new_token(), new_token(known.key_id)):
        polls.clear()
        hashed.clear()
        assert "there is no such key" in await refusal(gateway, Key("", token.text()))
        steps.append((len(hashed), len(polls)))
    assert steps == [(2, 1), (2, 1)]
