"""API keys in the store and in the cache of the gateway."""

import asyncio
import base64
import hashlib
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from uuid import uuid4

import msgspec
import pytest
import pytest_asyncio

from pyoco_server.auth import api_key_cache, slow_comparisons
from pyoco_server.auth.api_key_cache import ApiKeyCache, Grant
from pyoco_server.auth.key_administration import ApiKeyNotFound, KeyAdministration
from pyoco_server.auth.slow_comparisons import MAX_SECRETS
from pyoco_server.auth.tokens import Token, digest_of, matches_pbkdf2, new_token, stored_secret
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.kv import Bucket
from pyoco_server.broker.stores.api_keys import ApiKeyMirror, ApiKeyRecord, ApiKeys, StoredSecret
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import ApiKeyInvalid, InvalidCliArgument, NatsUnavailable, PyocoError
from tests.support.broker.connections import connected
from tests.support.broker.nats_server import NatsServer
from tests.support.clocks import shifted_time
from tests.support.problems import assert_problem
from tests.support.running.api_keys import Key, new_key, revoke, rotate
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.settings import for_hanging_nats
from tests.support.waiting import LIMIT_SEC, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def shared_config(shared_config: NatsBackendConfig) -> NatsBackendConfig:
    return replace(shared_config, http_auth_mode="api_key")


@pytest.fixture
def connection(shared_connection: Connection) -> Connection:
    return shared_connection


@asynccontextmanager
async def started_cache(connection: Connection) -> AsyncIterator[ApiKeyCache]:
    """A cache that has read all keys."""
    cache = ApiKeyCache(connection)
    await cache.start()
    try:
        await cache.confirm()
        yield cache
    finally:
        await cache.close()


@pytest_asyncio.fixture(loop_scope="module")
async def cache(connection: Connection) -> AsyncIterator[ApiKeyCache]:
    async with started_cache(connection) as cache:
        yield cache


def accepts(cache: ApiKeyCache, key: Key) -> bool:
    try:
        cache.check(key.text)
    except ApiKeyInvalid:
        return False
    return True


async def becomes(cache: ApiKeyCache, key: Key, *, accepted: bool) -> None:
    """Without `confirm`: by the hint of a write, or by the next scan."""
    await eventually(lambda: accepts(cache, key) is accepted, describe=f"accepted is {accepted}")


# The cache


async def test_only_valid_keys_are_cached(
    connection: Connection, cache: ApiKeyCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[str] = []

    def counted(secret: str, salt: str, pepper: bytes) -> str:
        hashed.append(secret)
        return digest_of(secret, salt, pepper)

    monkeypatch.setattr(api_key_cache, "digest_of", counted)
    key = await new_key(connection)
    await cache.confirm()
    with pytest.raises(ApiKeyInvalid):
        cache.check("no key")
    assert hashed == []
    # An unknown id costs the same hash as an invalid secret, each time.
    for token in (new_token(), new_token(key.key_id)):
        for _ in range(2):
            with pytest.raises(ApiKeyInvalid, match="there is no such key"):
                cache.check(token.text())
    assert len(hashed) == 4
    assert cache._verified == {}
    granted = cache.check(key.text)
    assert cache.check(key.text) is granted
    assert len(hashed) == 5
    assert list(cache._verified.values()) == [granted]
    await revoke(connection, key)
    await cache.confirm()
    with pytest.raises(ApiKeyInvalid, match="it was revoked"):
        cache.check(key.text)


async def new_public_key(connection: Connection) -> tuple[str, str]:
    """The id and the secret of a stored key as the public package makes them, with one iteration."""
    salt, secret = b"salt", "s" * 43
    digest = hashlib.pbkdf2_hmac("sha256", secret.encode(), salt, 1)
    salted, hashed = (base64.urlsafe_b64encode(each).decode().rstrip("=") for each in (salt, digest))
    key_id = uuid4().hex[:24]
    stored = StoredSecret(salt=salted, digest=hashed, iterations=1)
    await ApiKeys(connection).create(
        ApiKeyRecord(key_id=key_id, tenant_id="acme", secrets=(stored,), peppered=False, created_at=1.0)
    )
    return key_id, secret


async def test_concurrent_requests_with_a_key_of_the_public_package_compare_it_once(
    connection: Connection, cache: ApiKeyCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each comparison takes a tenth of a second, one after the other."""
    compared: list[str] = []

    def counted(secret: str, stored: StoredSecret, pepper: str) -> bool:
        compared.append(secret)
        return matches_pbkdf2(secret, stored, pepper)

    monkeypatch.setattr(api_key_cache, "matches_pbkdf2", counted)
    key_id, secret = await new_public_key(connection)
    requests = (cache.authenticate(f"pyoco_{key_id}.{secret}") for _ in range(10))
    assert {grant.key_id for grant in await asyncio.gather(*requests)} == {key_id}
    assert compared == [secret]


async def test_guesses_of_a_key_of_the_public_package_are_shared_and_bounded(
    connection: Connection, cache: ApiKeyCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    compared: list[str] = []

    def held(secret: str, stored: StoredSecret, pepper: str) -> bool:
        compared.append(secret)
        assert release.wait(LIMIT_SEC)
        return matches_pbkdf2(secret, stored, pepper)

    monkeypatch.setattr(api_key_cache, "matches_pbkdf2", held)
    guessed_id, secret = await new_public_key(connection)
    other_id, other_secret = await new_public_key(connection)
    await cache.confirm()
    guesses = ["1" * 43, "2" * 43, "3" * 43]
    async with asyncio.TaskGroup() as group:

        def request(key_id: str, secret: str) -> asyncio.Task[Grant | str]:
            return group.create_task(outcome(cache, f"pyoco_{key_id}.{secret}"))

        many = [request(guessed_id, guesses[0]) for _ in range(50)]
        valid, *others = (request(guessed_id, each) for each in (secret, *guesses[1:]))
        await eventually(lambda: cache._slow._waiting[guessed_id] == MAX_SECRETS, describe="four wait")
        assert await outcome(cache, f"pyoco_{guessed_id}.{'4' * 43}") == "ERR-PYOCO-0079"
        other = request(other_id, other_secret)
        await eventually(lambda: cache._slow._waiting[other_id] == 1, describe="another key waits")
        many[1].cancel()
        release.set()
    assert isinstance(valid.result(), Grant)
    assert isinstance(other.result(), Grant)
    assert {each.result() for each in (many[0], *many[2:], *others)} == {"ERR-PYOCO-0015"}
    assert sorted(compared) == sorted([secret, *guesses, other_secret])
    assert not cache._slow._waiting


async def test_a_key_that_cannot_be_compared_now_is_answered_with_503(
    shared_config: NatsBackendConfig, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slow_comparisons, "MAX_SECRETS", 0)
    key_id, secret = await new_public_key(connection)
    headers = {"X-API-Key": f"pyoco_{key_id}.{secret}"}
    async with running_gateway(shared_config) as gateway:
        listed = await gateway.http.get("/runs", headers=headers)
        assert_problem(listed, 503, 79)
        assert listed.headers["Retry-After"]
        answered = await gateway.http.post("/resume", json={"run_id": "any"}, headers=headers)
        assert (answered.status_code, answered.json()["error"]) == (503, "unavailable")


async def outcome(cache: ApiKeyCache, text: str) -> Grant | str:
    try:
        return await cache.authenticate(text)
    except PyocoError as error:
        return error.error.err_id


async def test_a_key_is_valid_on_every_gateway_and_rejected_after_its_end(
    shared_config: NatsBackendConfig, connection: Connection, cache: ApiKeyCache
) -> None:
    async with connected(shared_config) as other, started_cache(other) as second:
        key = await new_key(connection)
        for each in (cache, second):
            await becomes(each, key, accepted=True)
        await revoke(connection, key)
        for each in (cache, second):
            await becomes(each, key, accepted=False)


async def test_a_revocation_whose_hint_is_lost_is_found_by_the_next_scan(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ApiKeyCache, "_on_write_hint", lambda self: None)
    async with started_cache(connection) as cache:
        key = await new_key(connection)
        await becomes(cache, key, accepted=True)
        await revoke(connection, key)
        await becomes(cache, key, accepted=False)


async def test_the_cache_is_trusted_for_one_second(shared_config: NatsBackendConfig) -> None:
    async with connected(shared_config) as connection, started_cache(connection) as cache:
        assert cache.fresh
        await connection.close()
        await eventually(lambda: not cache.fresh, describe="what is known has grown old")


async def test_a_confirmation_fails_when_the_gateway_closes(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    polling = asyncio.Event()

    async def hanging(mirror: ApiKeyMirror) -> bool:
        polling.set()
        await asyncio.Event().wait()
        return False

    async with started_cache(connection) as cache:
        monkeypatch.setattr(ApiKeyMirror, "poll", hanging)
        confirming = asyncio.create_task(cache.confirm())
        await polling.wait()
    with pytest.raises(NatsUnavailable, match="could not be read"):
        await confirming


async def test_while_nats_hangs_every_request_is_answered_with_503(
    config: NatsBackendConfig, own_nats: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, during and after a refresh."""
    keyed = for_hanging_nats(replace(config, http_auth_mode="api_key"), own_nats.url)
    key = await new_key(keyed)

    async def status(gateway: RunningGateway) -> int:
        return (await gateway.http.get("/workers", headers=key.header)).status_code

    async def is_accepted() -> bool:
        return await status(gateway) == 200

    async with running_gateway(keyed) as gateway, asyncio.TaskGroup() as group:
        await eventually(is_accepted, describe="the key is accepted")
        moments = _begins_and_ends_of_polls(monkeypatch)
        await gateway.inside.authentication.keys.confirm()
        with own_nats.paused():
            assert gateway.inside.authentication.keys.fresh
            asked = [group.create_task(status(gateway))]
            for _ in range(8):
                await moments.get()
                asked.append(group.create_task(status(gateway)))
            reported = [await each for each in asked]
        await eventually(is_accepted, describe="the key is accepted again")
    assert set(reported) == {503}


def _begins_and_ends_of_polls(monkeypatch: pytest.MonkeyPatch) -> "asyncio.Queue[str]":
    moments: asyncio.Queue[str] = asyncio.Queue()
    poll = ApiKeyMirror.poll

    async def noting(mirror: ApiKeyMirror) -> bool:
        moments.put_nowait("a poll begins")
        try:
            return await poll(mirror)
        finally:
            moments.put_nowait("a poll has ended")

    monkeypatch.setattr(ApiKeyMirror, "poll", noting)
    return moments


# The end of a key


async def test_an_expired_key_is_rejected_at_its_time(
    connection: Connection, cache: ApiKeyCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = shifted_time(monkeypatch, api_key_cache)
    key = await new_key(connection, expires_at=time.time() + 3600)
    await cache.confirm()
    clock.by_sec = 3500
    assert accepts(cache, key)
    clock.by_sec = 3600
    with pytest.raises(ApiKeyInvalid, match="it has expired"):
        cache.check(key.text)


async def test_a_rotated_key_has_two_secrets_for_the_overlap(
    connection: Connection, cache: ApiKeyCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = shifted_time(monkeypatch, api_key_cache)
    old = await new_key(connection)
    new = await rotate(connection, old, overlap_sec=3600)
    await cache.confirm()
    clock.by_sec = 3500
    assert [accepts(cache, key) for key in (old, new)] == [True, True]
    clock.by_sec = 3600
    assert [accepts(cache, key) for key in (old, new)] == [False, True]


async def test_a_rotation_ends_older_secrets_at_once(connection: Connection, cache: ApiKeyCache) -> None:
    first = await new_key(connection)
    second = await rotate(connection, first, overlap_sec=60)
    third = await rotate(connection, first, overlap_sec=60)
    await cache.confirm()
    assert [accepts(cache, key) for key in (first, second, third)] == [False, True, True]
    last = await rotate(connection, first)
    await cache.confirm()
    assert [accepts(cache, key) for key in (second, third, last)] == [False, False, True]


async def test_keys_of_another_pepper_are_rejected(
    config: NatsBackendConfig, caplog: pytest.LogCaptureFixture
) -> None:
    keyed = replace(config, http_auth_mode="api_key")
    key, plain = await new_key(replace(keyed, auth_pepper="first-pepper")), await new_key(keyed)
    for pepper, expected in (
        ("first-pepper", [True, False]),
        ("second-pepper", [False, False]),
        ("", [False, True]),
    ):
        settings = replace(keyed, auth_pepper=pepper)
        async with connected(settings) as connection, started_cache(connection) as cache:
            assert [accepts(cache, each) for each in (key, plain)] == expected
    assert f"API key {plain.key_id} was created without a pepper" in caplog.text
    assert f"API key {key.key_id} was created with a pepper" in caplog.text


# The last use


async def last_use(connection: Connection, key: Key) -> float | None:
    listed = await KeyAdministration(connection).list(None)
    return next(each.last_used_at for each in listed if each.record.key_id == key.key_id)


async def test_the_last_use_is_written_at_most_once_a_minute_and_not_by_the_request(
    connection: Connection, cache: ApiKeyCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await new_key(connection)
    await cache.confirm()
    assert await last_use(connection, key) is None
    cache.check(key.text)
    first = await eventually(lambda: last_use(connection, key), describe="the use is written")
    for _ in range(3):
        cache.check(key.text)
        await cache.confirm()
    assert await last_use(connection, key) == first
    monkeypatch.setattr(api_key_cache, "USE_SEC", 0.0)

    async def written_again() -> bool:
        cache.check(key.text)
        return await last_use(connection, key) != first

    await eventually(written_again, describe="a use after a minute is written")


async def test_a_use_never_brings_a_revoked_key_back(connection: Connection, cache: ApiKeyCache) -> None:
    key = await new_key(connection)
    await revoke(connection, key)
    await ApiKeys(connection).note_use(key.key_id, time.time())
    await cache.confirm()
    with pytest.raises(ApiKeyInvalid, match="it was revoked"):
        cache.check(key.text)


# The bucket


async def test_keys_that_are_removed_without_a_marker_are_gone(config: NatsBackendConfig) -> None:
    keyed = replace(config, http_auth_mode="api_key")
    stream = f"KV_{keyed.auth_kv_bucket}"
    async with connected(keyed) as connection, started_cache(connection) as cache:
        key, other = await new_key(connection), await new_key(connection)
        await jetstream_api.purge(connection, stream, f"$KV.{keyed.auth_kv_bucket}.key.{key.key_id}")
        await cache.confirm()
        assert [accepts(cache, each) for each in (key, other)] == [False, True]
        await jetstream_api.purge(connection, stream, ">")
        await cache.confirm()
        assert not accepts(cache, other)
        # A deleted bucket is created again, without its keys.
        another = await new_key(connection)
        await becomes(cache, another, accepted=True)
        await jetstream_api.call(connection, f"STREAM.DELETE.{stream}")
        await becomes(cache, another, accepted=False)

        async def bucket_exists() -> bool:
            try:
                await jetstream_api.call(connection, f"STREAM.INFO.{stream}")
            except jetstream_api.ApiRefused:
                return False
            return True

        await eventually(bucket_exists, describe="the bucket is created again")
        await becomes(cache, await new_key(connection), accepted=True)


async def test_a_record_that_cannot_be_read_leaves_no_older_one_in_force(
    connection: Connection, cache: ApiKeyCache
) -> None:
    key = await new_key(connection)
    await cache.confirm()
    assert accepts(cache, key)
    bucket = Bucket(connection, connection.config.auth_kv_bucket)
    entry = await bucket.get_from_leader(f"key.{key.key_id}")
    assert entry is not None
    await bucket.update(f"key.{key.key_id}", b'{"secrets": 1}', revision=entry.revision)
    await cache.confirm()
    assert not accepts(cache, key)


async def test_a_scope_of_a_later_version_is_ignored(connection: Connection, cache: ApiKeyCache) -> None:
    token = new_token()
    record = ApiKeyRecord(
        key_id=token.key_id,
        tenant_id="acme",
        scopes=("fly",),
        secrets=(stored_secret(token, ""),),
        peppered=False,
        created_at=time.time(),
    )
    await ApiKeys(connection).create(record)
    await cache.confirm()
    assert cache.check(token.text()).scopes == frozenset()


async def test_the_bucket_holds_no_secret(shared_config: NatsBackendConfig) -> None:
    async with connected(replace(shared_config, auth_pepper="a-pepper")) as connection:
        key = await new_key(connection)
        bucket = Bucket(connection, shared_config.auth_kv_bucket)
        entry = await bucket.get_from_leader(f"key.{key.key_id}")
    token = Token.parse(key.text)
    assert token is not None
    assert entry is not None
    assert token.secret.encode() not in entry.value
    assert b"a-pepper" not in entry.value
    secret = msgspec.json.decode(entry.value, type=ApiKeyRecord).secrets[0]
    assert secret.digest == digest_of(token.secret, secret.salt, b"a-pepper")


async def test_a_revoked_key_cannot_be_rotated_and_an_unknown_one_not_be_revoked(
    connection: Connection,
) -> None:
    key = await new_key(connection, "revoking")
    await revoke(connection, key)
    administration = KeyAdministration(connection)
    [listed] = await administration.list("revoking")
    assert (await administration.revoke(key.key_id)).revoked_at == listed.record.revoked_at
    with pytest.raises(InvalidCliArgument, match="is revoked: create another one"):
        await administration.rotate(key.key_id, overlap_sec=0)
    for key_id in ("0" * 16, "*", "a.b"):
        with pytest.raises(ApiKeyNotFound):
            await administration.revoke(key_id)


async def test_thousands_of_keys_are_known(config: NatsBackendConfig) -> None:
    async with connected(replace(config, http_auth_mode="api_key")) as connection:
        administration = KeyAdministration(connection)
        made = await asyncio.gather(
            *(
                administration.create(f"t{number}", name="", scopes=[], expires_at=None)
                for number in range(1500)
            )
        )
        mirror = ApiKeyMirror(connection)
        assert await mirror.poll()
        assert len(mirror.entries.records) == 1500
        assert not await mirror.poll()
        async with started_cache(connection) as cache:
            tenants = {cache.check(token.text()).tenant_id for _, token in made}
    assert tenants == {f"t{number}" for number in range(1500)}
