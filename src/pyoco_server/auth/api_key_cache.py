"""The gateway's cache of API keys: a key is checked in memory, against data that is at most a second old.

The mirror of the bucket is refreshed after a hint of a write, and twice a second. When it is older than a
second, a request waits until NATS has confirmed it, or fails with NatsUnavailable. So a revoked key is
rejected within a second, with or without the hint.

A key that is not in the mirror may be newer than the mirror: before it is rejected, the mirror is refreshed
(paced_refresh.py). That reads what was written since, as any other refresh does, so it cannot bring back a
key whose revocation was read. Its time reveals no more than the comparison did: nothing of the key is sent to
NATS, and an unknown id and an invalid secret of a known id take the same steps (compare, refresh, compare).
The ids of keys of the public package are known by their slow comparison.
"""

import asyncio
import logging
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from hmac import compare_digest
from typing import Final

from pyoco_server.aio.background import BackgroundLoop
from pyoco_server.auth.paced_refresh import PacedRefresh
from pyoco_server.auth.scopes import ALL_SCOPES, Scope
from pyoco_server.auth.slow_comparisons import SlowComparisons
from pyoco_server.auth.tokens import (
    Token,
    digest_of,
    fingerprint,
    matches_pbkdf2,
    new_token,
    stored_secret,
)
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.api_keys import ApiKeyMirror, ApiKeyRecord, ApiKeys, StoredSecret
from pyoco_server.broker.streams_and_buckets import ensure_api_keys
from pyoco_server.errors import ApiKeyInvalid, NatsUnavailable

log = logging.getLogger(__name__)

TRUST_SEC: Final = 1.0
_POLL_SEC: Final = 0.5
# The hint of a write arrives before the write can be read.
_STORED_SEC: Final = 0.1
# The last use of a key is written at most this often.
USE_SEC: Final = 60.0
# Per refresh: the mirror must not expire meanwhile.
_MAX_USES: Final = 50


@dataclass(frozen=True, slots=True, eq=False)
class Grant:
    """The access that one secret of a key gives."""

    key_id: str
    tenant_id: str
    name: str
    scopes: frozenset[Scope]
    groups: frozenset[str]
    secret: StoredSecret
    revoked_at: float | None
    expires_at: float | None
    # Set when it ends: open event streams end themselves.
    ended: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    def rejection(self, now: float) -> str:
        """Why it is not valid; empty while it is."""
        if self.revoked_at is not None:
            return "it was revoked"
        if self.expires_at is not None and now >= self.expires_at:
            return "it has expired"
        if self.secret.valid_until is not None and now >= self.secret.valid_until:
            return "it was replaced, and the overlap has ended"
        return ""

    def is_equivalent(self, other: "Grant") -> bool:
        return self._access() == other._access()

    def _access(self) -> tuple[object, ...]:
        return (self.tenant_id, self.scopes, self.groups, self.secret, self.revoked_at, self.expires_at)


class ApiKeyCache:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._store = ApiKeys(connection)
        self._loop = BackgroundLoop("api-keys", self._step)
        self._mirror = ApiKeyMirror(connection, self._on_write_hint)
        self._pepper = connection.config.auth_pepper.encode()
        self._grants: dict[str, list[Grant]] = {}
        # By fingerprint, until any key changes.
        self._verified: dict[bytes, Grant] = {}
        # Compared with when the id is unknown, so that it takes the same time.
        self._dummy = [_grant(_dummy_record(), stored_secret(new_token(), ""))]
        self._hinted = False
        self._slow = SlowComparisons()
        self._pause_sec = 0.0
        self._confirmations: list[asyncio.Future[None]] = []
        self._lookups = PacedRefresh(self.confirm, timeout_sec=connection.config.nats_request_timeout_sec)
        self._end_expired_at = 0.0
        self._used: dict[str, float] = {}
        connection.on_connect(self._on_connected)

    async def start(self) -> None:
        self._loop.start()

    async def close(self) -> None:
        await self._lookups.close()
        await self._slow.close()
        await self._loop.close()
        _resolve(self._confirmations, self._connection.unavailable("the gateway is closing"))

    @property
    def fresh(self) -> bool:
        """Whether keys may be checked without asking NATS."""
        return time.monotonic() - self._mirror.correct_as_of <= TRUST_SEC

    async def authenticate(self, text: str) -> Grant:
        """As `check`, with keys that are at most a second old; awaits nothing for one that is known."""
        was_fresh = self.fresh
        if not was_fresh:
            await self.confirm()
        grant = self._find(text)
        if grant is None:
            if was_fresh:
                await self._look_up()
            if self._needs_slow_check(text):
                await self._check_slowly(text)
                if not self.fresh:
                    await self.confirm()
            grant = self._find(text)
        return self._accepted(grant)

    async def confirm(self) -> None:
        """Refresh now; NatsUnavailable when that takes longer than the request timeout."""
        confirmed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._confirmations.append(confirmed)
        self._loop.wake()
        timeout_sec = self._connection.config.nats_request_timeout_sec
        try:
            async with asyncio.timeout(timeout_sec):
                await confirmed
        except TimeoutError:
            why = f"the API keys could not be confirmed within {timeout_sec:g} s"
            raise self._connection.unavailable(why) from None

    def check(self, text: str) -> Grant:
        """The grant of the key as it was last read; ApiKeyInvalid says why it is rejected."""
        return self._accepted(self._find(text))

    def _accepted(self, grant: Grant | None) -> Grant:
        if grant is None:
            raise ApiKeyInvalid("there is no such key")
        now = time.time()
        if why := grant.rejection(now):
            raise ApiKeyInvalid(f"the key {grant.key_id}: {why}")
        self._used[grant.key_id] = now
        return grant

    def _find(self, text: str) -> Grant | None:
        mark = fingerprint(text)
        grant = self._verified.get(mark)
        if grant is None:
            token = Token.parse(text)
            if token is None:
                raise ApiKeyInvalid("it does not have the form pyoco_<id>_<secret>")
            grant = self._matching(token)
            if grant is not None:
                self._verified[mark] = grant
        return grant

    def _matching(self, token: Token) -> Grant | None:
        known = self._grants.get(token.key_id)
        found = None
        for grant in known or self._dummy:
            if grant.secret.iterations:
                # Only `_check_slowly` compares these.
                continue
            digest = digest_of(token.secret, grant.secret.salt, self._pepper)
            if compare_digest(digest, grant.secret.digest):
                found = grant
        return found if known else None

    async def _look_up(self) -> None:
        """Refresh for an unknown key. NatsUnavailable if that fails: the key may be valid."""
        if not await self._lookups.wait_for_refresh():
            raise self._connection.unavailable("the API key could not be looked up")

    def _needs_slow_check(self, text: str) -> bool:
        """Whether only `_check_slowly` can compare it: a key of the public package, once."""
        if "." not in text:
            return False
        token = Token.parse(text)
        if token is None or fingerprint(text) in self._verified:
            return False
        now = time.time()
        known = self._grants.get(token.key_id, ())
        return any(grant.secret.iterations and not grant.rejection(now) for grant in known)

    async def _check_slowly(self, text: str) -> None:
        """Compare a key of the public package; `_find` finds it then."""
        token = Token.parse(text)
        assert token is not None
        compare = partial(self._compare_slowly, token, text)
        await self._slow.run(compare, key_id=token.key_id, fingerprint=fingerprint(text))

    async def _compare_slowly(self, token: Token, text: str) -> None:
        pepper = self._connection.config.auth_pepper
        for grant in list(self._grants.get(token.key_id, ())):
            if grant.secret.iterations and not grant.rejection(time.time()):
                matches = await asyncio.to_thread(matches_pbkdf2, token.secret, grant.secret, pepper)
                # The keys may have been read again meanwhile.
                if matches and grant in self._grants.get(token.key_id, ()):
                    self._verified[fingerprint(text)] = grant

    def _on_write_hint(self) -> None:
        self._hinted = True
        self._loop.wake()

    async def _on_connected(self) -> None:
        self._loop.wake()

    async def _step(self) -> None:
        await self._loop.pause(self._pause_sec)
        hinted, self._hinted = self._hinted, False
        waiting, self._confirmations = self._confirmations, []
        self._pause_sec = _POLL_SEC
        try:
            changed = await self._mirror.poll()
        except NatsUnavailable as error:
            # Also those that arrived meanwhile: another attempt would take as long.
            waiting, self._confirmations = [*waiting, *self._confirmations], []
            _resolve(waiting, error)
            await self._recreate_bucket()
        except BaseException:
            _resolve(waiting, self._connection.unavailable("the API keys could not be read"))
            raise
        else:
            if changed:
                self._rebuild()
            elif hinted:
                self._pause_sec = _STORED_SEC
            _resolve(waiting)
            await self._record_uses()
        self._end_expired()

    async def _recreate_bucket(self) -> None:
        """The bucket may have been deleted, with its keys."""
        if self._connection.ready:
            with suppress(NatsUnavailable):
                await ensure_api_keys(self._connection)

    def _rebuild(self) -> None:
        before, self._grants = self._grants, {}
        verified, self._verified = self._verified, {}
        for key_id, record in self._mirror.entries.records.items():
            known = before.pop(key_id, [])
            is_ours = not any(secret.iterations for secret in record.secrets)
            if not known and is_ours and record.peppered != bool(self._pepper):
                log.warning(
                    "API key %s was created %s a pepper, unlike the keys of this gateway, and is rejected: "
                    "rotate it with the gateway's PYOCO_AUTH_PEPPER",
                    key_id,
                    "with" if record.peppered else "without",
                )
            self._grants[key_id] = [_kept(_grant(record, secret), known) for secret in record.secrets]
            _end(grant for grant in known if grant not in self._grants[key_id])
        for grants in before.values():
            _end(grants)
        # What takes long to compare stays verified, as long as its grant is the same one.
        self._verified = {
            mark: grant
            for mark, grant in verified.items()
            if grant.secret.iterations and grant in self._grants.get(grant.key_id, ())
        }

    def _end_expired(self) -> None:
        """Not after every poll: lookups cause many, and there may be many keys."""
        if time.monotonic() < self._end_expired_at:
            return
        self._end_expired_at = time.monotonic() + _POLL_SEC
        now = time.time()
        for grants in self._grants.values():
            _end(grant for grant in grants if grant.rejection(now))

    async def _record_uses(self) -> None:
        """Not on the path of a request."""
        if not self._used:
            return
        now, known = time.time(), self._mirror.entries.last_used
        due = [key_id for key_id in self._used if now - known.get(key_id, 0.0) >= USE_SEC]
        for key_id in due[:_MAX_USES]:
            used_at = self._used.pop(key_id)
            try:
                await self._store.note_use(key_id, used_at)
            except NatsUnavailable as error:
                log.debug("cannot write the last use of key %s: %s", key_id, error)
                self._used.setdefault(key_id, used_at)
                return
            known[key_id] = used_at


def _grant(record: ApiKeyRecord, secret: StoredSecret) -> Grant:
    # Scopes of later versions are ignored.
    named = frozenset(scope for scope in Scope if scope in record.scopes)
    return Grant(
        key_id=record.key_id,
        tenant_id=record.tenant_id,
        name=record.name,
        scopes=named if record.scopes else ALL_SCOPES,
        groups=frozenset(record.groups),
        secret=secret,
        revoked_at=record.revoked_at,
        expires_at=record.expires_at,
    )


def _dummy_record() -> ApiKeyRecord:
    return ApiKeyRecord(key_id="", tenant_id="", secrets=(), peppered=False, created_at=0.0, revoked_at=0.0)


def _kept(fresh: Grant, known: list[Grant]) -> Grant:
    """The existing grant if it is equivalent: open streams refer to it."""
    return next((grant for grant in known if grant.is_equivalent(fresh)), fresh)


def _end(grants: Iterable[Grant]) -> None:
    for grant in grants:
        grant.ended.set()


def _resolve(waiting: list[asyncio.Future[None]], error: NatsUnavailable | None = None) -> None:
    for future in waiting:
        # The caller may have stopped waiting.
        if future.done():
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
