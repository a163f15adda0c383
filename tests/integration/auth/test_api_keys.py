"""API keys in the store and in the cache of the gateway."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import msgspec
import pytest

from pyoco_server.auth import api_key_cache
from pyoco_server.auth.api_key_cache import ApiKeyCache
from pyoco_server.auth.key_administration import KeyAdministration
from pyoco_server.auth.scopes import ALL_SCOPES, Scope
from pyoco_server.auth.tokens import Token, digest_of, new_token, stored_secret
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.kv import Bucket
from pyoco_server.broker.stores.api_keys import ApiKeyMirror, ApiKeyRecord, ApiKeys
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import ApiKeyInvalid, InvalidCliArgument
from tests.support.broker.connections import connected
from tests.support.broker.nats_server import NatsServer
from tests.support.clocks import shifted_time
from tests.support.running.api_keys import Key, new_key, revoke, rotate
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.settings import for_hanging_nats
from tests.support.waiting import eventually


@pytest.fixture
def keyed(config: NatsBackendConfig) -> NatsBackendConfig:
    return replace(config, http_auth_mode="api_key")


async def status(gateway: RunningGateway, key: Key) -> int:
    return (await gateway.http.get("/workers", headers=key.header)).status_code


async def turns(gateway: RunningGateway, key: Key, expected: int) -> None:
    async def there() -> bool:
        return await status(gateway, key) == expected

    await eventually(there, describe=f"{key.key_id} gets {expected}")


@asynccontextmanager
async def knowing(config: NatsBackendConfig) -> AsyncIterator[tuple[Connection, ApiKeyCache]]:
    async with connected(config) as connection:
        keys = ApiKeyCache(connection)
        await keys.start()
        try:
            await keys.confirm()
            yield connection, keys
        finally:
            await keys.close()


async def test_while_nats_hangs_every_request_is_answered_with_503(
    keyed: NatsBackendConfig, own_nats: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, during and after a refresh."""
    keyed = for_hanging_nats(keyed, own_nats.url)
    key = await new_key(keyed)

    async with running_gateway(keyed) as gateway, asyncio.TaskGroup() as group:
        await turns(gateway, key, 200)
        moments = _begins_and_ends_of_looks(monkeypatch)
        await gateway.inside.authentication.keys.confirm()
        with own_nats.paused():
            assert gateway.inside.authentication.keys.fresh
            asked = [group.create_task(status(gateway, key))]
            for _ in range(8):
                await moments.get()
                asked.append(group.create_task(status(gateway, key)))
            reported = [await each for each in asked]
        await turns(gateway, key, 200)
    assert set(reported) == {503}


def _begins_and_ends_of_looks(monkeypatch: pytest.MonkeyPatch) -> "asyncio.Queue[str]":
    moments: asyncio.Queue[str] = asyncio.Queue()
    look = ApiKeyMirror.look

    async def noting(mirror: ApiKeyMirror) -> bool:
        moments.put_nowait("a look begins")
        try:
            return await look(mirror)
        finally:
            moments.put_nowait("a look has ended")

    monkeypatch.setattr(ApiKeyMirror, "look", noting)
    return moments


async def test_only_valid_keys_are_cached(keyed: NatsBackendConfig) -> None:
    key = await new_key(keyed)
    async with knowing(keyed) as (_, keys):
        for text in ["no key", *(new_token().text() for _ in range(3)), new_token(key.key_id).text()]:
            for _ in range(2):
                with pytest.raises(ApiKeyInvalid):
                    keys.check(text)
        assert keys._verified == {}
        granted = keys.check(key.text)
        assert keys.check(key.text) is granted
        assert list(keys._verified.values()) == [granted]
        await revoke(keyed, key)
        await keys.confirm()
        with pytest.raises(ApiKeyInvalid, match="it was revoked"):
            keys.check(key.text)


async def test_a_key_is_valid_on_every_gateway_and_rejected_after_its_end(
    keyed: NatsBackendConfig,
) -> None:
    async with (
        running_gateway(keyed) as one,
        running_gateway(replace(keyed, index_dir=f"{keyed.index_dir}2")) as two,
    ):
        key = await new_key(keyed)
        await turns(one, key, 200)
        await turns(two, key, 200)
        await revoke(keyed, key)
        await asyncio.gather(turns(one, key, 403), turns(two, key, 403))


async def test_a_revocation_whose_hint_is_lost_is_found_by_the_next_scan(
    keyed: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ApiKeyCache, "_on_write_hint", lambda self: None)
    async with running_gateway(keyed) as gateway:
        key = await new_key(keyed)
        await turns(gateway, key, 200)
        await revoke(keyed, key)
        await turns(gateway, key, 403)


async def test_the_cache_is_trusted_for_one_second(keyed: NatsBackendConfig) -> None:
    async with knowing(keyed) as (connection, keys):
        assert keys.fresh
        await connection.close()
        await eventually(lambda: not keys.fresh, describe="what is known has grown old")


async def test_an_expired_key_is_rejected_at_its_time(
    keyed: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = shifted_time(monkeypatch, api_key_cache)
    async with running_gateway(keyed) as gateway:
        key = await new_key(keyed, expires_at=time.time() + 3600)
        clock.by_sec = 3500
        await turns(gateway, key, 200)
        clock.by_sec = 3600
        await turns(gateway, key, 403)
        response = await gateway.http.get("/workers", headers=key.header)
        assert "it has expired" in response.json()["detail"]


async def test_a_rotated_key_has_two_secrets_for_the_overlap(
    keyed: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = shifted_time(monkeypatch, api_key_cache)
    async with running_gateway(keyed) as gateway:
        old = await new_key(keyed)
        await turns(gateway, old, 200)
        new = await rotate(keyed, old, overlap_sec=3600)
        await turns(gateway, new, 200)
        clock.by_sec = 3500
        assert await status(gateway, old) == 200
        clock.by_sec = 3600
        await turns(gateway, old, 403)
        assert await status(gateway, new) == 200


async def test_a_key_that_is_rotated_without_overlap_has_the_new_secret_only(
    keyed: NatsBackendConfig,
) -> None:
    async with running_gateway(keyed) as gateway:
        old = await new_key(keyed)
        await turns(gateway, old, 200)
        new = await rotate(keyed, old)
        await turns(gateway, old, 403)
        assert await status(gateway, new) == 200


async def test_a_second_rotation_ends_the_first_secret_at_once(keyed: NatsBackendConfig) -> None:
    async with running_gateway(keyed) as gateway:
        first = await new_key(keyed)
        second = await rotate(keyed, first, overlap_sec=60)
        third = await rotate(keyed, first, overlap_sec=60)
        # A gateway that has heard of none of this refuses the first one as well.
        await turns(gateway, third, 200)
        await turns(gateway, first, 403)
        assert [await status(gateway, key) for key in (second, third)] == [200, 200]


async def test_keys_of_another_pepper_are_rejected(
    keyed: NatsBackendConfig, caplog: pytest.LogCaptureFixture
) -> None:
    peppered = replace(keyed, auth_pepper="first-pepper")
    key, plain = await new_key(peppered), await new_key(keyed)
    for pepper, expected in (("first-pepper", (200, 403)), ("second-pepper", (403, 403)), ("", (403, 200))):
        async with running_gateway(replace(keyed, auth_pepper=pepper)) as gateway:
            assert (await status(gateway, key), await status(gateway, plain)) == expected
    assert f"API key {plain.key_id} was created without a pepper" in caplog.text
    assert f"API key {key.key_id} was created with a pepper" in caplog.text


async def test_the_last_use_is_written_at_most_once_a_minute_and_not_by_the_request(
    keyed: NatsBackendConfig,
) -> None:
    key = await new_key(keyed)
    async with knowing(keyed) as (connection, keys):
        administration = KeyAdministration(connection)

        async def last_use() -> float | None:
            return (await administration.list(None))[0].last_used_at

        assert await last_use() is None
        keys.check(key.text)
        first = await eventually(last_use, describe="the use is written down")
        for _ in range(3):
            keys.check(key.text)
            await keys.confirm()
        assert await last_use() == first


async def test_a_use_after_a_minute_is_written_again(
    keyed: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_key_cache, "USE_SEC", 0.2)
    key = await new_key(keyed)
    async with knowing(keyed) as (connection, keys):
        administration = KeyAdministration(connection)
        seen: set[float] = set()

        async def three_uses() -> bool:
            keys.check(key.text)
            seen.update(each.last_used_at for each in await administration.list(None) if each.last_used_at)
            return len(seen) >= 3

        await eventually(three_uses, describe="three uses were written down")


async def test_a_use_never_brings_a_revoked_key_back(keyed: NatsBackendConfig) -> None:
    key = await new_key(keyed)
    await revoke(keyed, key)
    async with knowing(keyed) as (connection, keys):
        await ApiKeys(connection).note_use(key.key_id, time.time())
        await keys.confirm()
        with pytest.raises(ApiKeyInvalid, match="it was revoked"):
            keys.check(key.text)


async def test_keys_that_are_removed_without_a_word_are_gone(keyed: NatsBackendConfig) -> None:
    key, other = await new_key(keyed), await new_key(keyed)
    async with knowing(keyed) as (connection, keys):
        stream, subject = f"KV_{keyed.auth_kv_bucket}", f"$KV.{keyed.auth_kv_bucket}.key.{key.key_id}"
        await jetstream_api.purge(connection, stream, subject)
        await keys.confirm()
        with pytest.raises(ApiKeyInvalid, match="there is no such key"):
            keys.check(key.text)
        keys.check(other.text)
        await jetstream_api.purge(connection, stream, ">")
        await keys.confirm()
        with pytest.raises(ApiKeyInvalid):
            keys.check(other.text)


async def test_a_deleted_bucket_is_recreated_without_its_keys(
    keyed: NatsBackendConfig,
) -> None:
    key = await new_key(keyed)
    async with running_gateway(keyed) as gateway:
        await turns(gateway, key, 200)
        await jetstream_api.call(gateway.inside.connection, f"STREAM.DELETE.KV_{keyed.auth_kv_bucket}")
        await turns(gateway, key, 403)
        await turns(gateway, await new_key(keyed), 200)


async def test_a_record_that_cannot_be_read_leaves_no_older_one_in_force(keyed: NatsBackendConfig) -> None:
    key = await new_key(keyed)
    async with knowing(keyed) as (connection, keys):
        bucket = Bucket(connection, keyed.auth_kv_bucket)
        entry = await bucket.get_from_leader(f"key.{key.key_id}")
        assert entry is not None
        keys.check(key.text)
        await bucket.update(f"key.{key.key_id}", b'{"secrets": 1}', revision=entry.revision)
        await keys.confirm()
        with pytest.raises(ApiKeyInvalid):
            keys.check(key.text)


async def test_a_scope_of_a_later_version_is_ignored(keyed: NatsBackendConfig) -> None:
    token = new_token()
    record = ApiKeyRecord(
        key_id=token.key_id,
        tenant_id="acme",
        scopes=("fly",),
        secrets=(stored_secret(token, ""),),
        peppered=False,
        created_at=time.time(),
    )
    async with knowing(keyed) as (connection, keys):
        await ApiKeys(connection).create(record)
        await keys.confirm()
        assert keys.check(token.text()).scopes == frozenset()


async def test_the_bucket_holds_no_secret(keyed: NatsBackendConfig) -> None:
    keyed = replace(keyed, auth_pepper="a-pepper")
    key = await new_key(keyed)
    token = Token.parse(key.text)
    assert token is not None
    async with connected(keyed) as connection:
        entry = await Bucket(connection, keyed.auth_kv_bucket).get_from_leader(f"key.{key.key_id}")
    assert entry is not None
    assert token.secret.encode() not in entry.value
    assert b"a-pepper" not in entry.value
    secret = msgspec.json.decode(entry.value, type=ApiKeyRecord).secrets[0]
    assert secret.digest == digest_of(token.secret, secret.salt, b"a-pepper")


async def test_a_key_that_is_gone_cannot_be_rotated_and_an_unknown_one_not_be_revoked(
    keyed: NatsBackendConfig,
) -> None:
    key = await new_key(keyed)
    await revoke(keyed, key)
    async with connected(keyed) as connection:
        administration = KeyAdministration(connection)
        first = (await administration.list("acme"))[0].record.revoked_at
        assert (await administration.revoke(key.key_id)).revoked_at == first
        with pytest.raises(InvalidCliArgument, match="is revoked: create another one"):
            await administration.rotate(key.key_id, overlap_sec=0)
        for key_id in ("0" * 16, "*", "a.b"):
            with pytest.raises(InvalidCliArgument, match="there is no such API key"):
                await administration.revoke(key_id)


async def test_thousands_of_keys_are_known(keyed: NatsBackendConfig) -> None:
    async with connected(keyed) as connection:
        administration = KeyAdministration(connection)
        made = await asyncio.gather(
            *(
                administration.create(f"t{number}", name="", scopes=[], expires_at=None)
                for number in range(1500)
            )
        )
        mirror = ApiKeyMirror(connection)
        assert await mirror.look()
        assert len(mirror.entries.records) == 1500
        assert not await mirror.look()
    async with knowing(keyed) as (_, keys):
        assert {keys.check(token.text()).tenant_id for _, token in made} == {f"t{n}" for n in range(1500)}


async def test_checking_a_key_takes_microseconds(keyed: NatsBackendConfig) -> None:
    key = await new_key(keyed)
    async with knowing(keyed) as (_, keys):
        # Of this thread's own time: others may have the processor meanwhile.
        began = time.thread_time()
        for _ in range(1000):
            keys.check(key.text)
        # A hash that is slow on purpose takes thousands of times as long.
        assert time.thread_time() - began < 0.5


async def test_an_unknown_id_costs_the_same_hash_as_an_invalid_secret(
    keyed: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await new_key(keyed)
    hashed: list[str] = []

    def counted(secret: str, salt: str, pepper: bytes) -> str:
        hashed.append(secret)
        return digest_of(secret, salt, pepper)

    async with knowing(keyed) as (_, keys):
        monkeypatch.setattr(api_key_cache, "digest_of", counted)
        for token in (new_token(key.key_id), new_token()):
            with pytest.raises(ApiKeyInvalid, match="there is no such key"):
                keys.check(token.text())
    assert len(hashed) == 2


def test_tokens_are_long_and_never_the_same() -> None:
    tokens = {new_token().text() for _ in range(100)}
    assert len(tokens) == 100
    for text in tokens:
        token = Token.parse(text)
        assert token is not None
        assert len(bytes.fromhex(token.secret)) == 32
        assert token.text() == text
        assert token.secret not in repr(token)


def test_the_same_secret_is_stored_differently_each_time() -> None:
    token = new_token()
    assert stored_secret(token, "p").digest != stored_secret(token, "p").digest


def test_there_are_five_scopes() -> None:
    assert {"submit", "read", "operate", "wheels", "admin"} == ALL_SCOPES
    assert Scope("read") in ALL_SCOPES
