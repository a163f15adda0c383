"""The keys as a gateway knows them: whether a key is good is answered from memory, and never from an old one.

The mirror of the bucket is renewed when a write is heard of, and else twice a second. It is trusted for one
second; after that a request waits until NATS has confirmed it, or gets NatsUnavailable. So a key that was
revoked is refused within a second, whatever became of the hint.
"""

import asyncio
import logging
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from pyoco_server.aio.background import BackgroundLoop
from pyoco_server.auth.scopes import ALL_SCOPES, Scope
from pyoco_server.auth.tokens import Token, digest_of, fingerprint, new_token, same, stored_secret
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.resources import ensure_api_keys
from pyoco_server.broker.stores.api_key_mirror import ApiKeyMirror
from pyoco_server.broker.stores.api_keys import ApiKeyRecord, ApiKeys, StoredSecret
from pyoco_server.errors import ApiKeyInvalid, NatsUnavailable

log = logging.getLogger(__name__)

TRUST_SEC: Final = 1.0
_LOOK_SEC: Final = 0.5
# A write is heard of before it can be read.
_STORED_SEC: Final = 0.1
# How often the use of a key is written down, at most.
USE_SEC: Final = 60.0
# The mirror must not grow old meanwhile.
_USES_AT_ONCE: Final = 50


@dataclass(frozen=True, slots=True, eq=False)
class Grant:
    """What one secret of a key gives, for as long as it does."""

    key_id: str
    tenant_id: str
    name: str
    scopes: frozenset[Scope]
    secret: StoredSecret
    revoked_at: float | None
    expires_at: float | None
    # Set once it is over: answers that stay open end themselves.
    over: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    def rejection(self, now: float) -> str:
        """Empty while it is good."""
        if self.revoked_at is not None:
            return "it was revoked"
        if self.expires_at is not None and now >= self.expires_at:
            return "it has expired"
        if self.secret.valid_until is not None and now >= self.secret.valid_until:
            return "it was replaced by a new one, and the time for both is over"
        return ""

    def is_as(self, other: "Grant") -> bool:
        return (self.tenant_id, self.scopes, self.secret, self.revoked_at, self.expires_at) == (
            other.tenant_id,
            other.scopes,
            other.secret,
            other.revoked_at,
            other.expires_at,
        )


class ApiKeyCache:
    """Kept up to date in the background, from `start` to `close`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._store = ApiKeys(connection)
        self._loop = BackgroundLoop("api-keys", self._step)
        self._mirror = ApiKeyMirror(connection, self._heard_of_a_write)
        self._pepper = connection.config.auth_pepper.encode()
        self._grants: dict[str, list[Grant]] = {}
        # What was found to match: once for each secret, until any key changes.
        self._proven: dict[bytes, Grant] = {}
        # Compared with when there is no key of an id, so that this takes as long.
        self._nobody = [_grant(_dummy_record(), stored_secret(new_token(), ""))]
        self._hinted = False
        self._pause_sec = 0.0
        self._asked: list[asyncio.Future[None]] = []
        self._used: dict[str, float] = {}
        connection.add_hook(self._on_connected)

    async def start(self) -> None:
        self._loop.start()

    async def close(self) -> None:
        await self._loop.close()
        _answer(self._asked, self._connection.unavailable("the gateway is closing"))

    @property
    def fresh(self) -> bool:
        """Whether what is known may be relied on without asking."""
        return time.monotonic() - self._mirror.right_as_of <= TRUST_SEC

    async def confirm(self) -> None:
        """Ask NATS now; NatsUnavailable when it cannot tell in the time that one request to it may take."""
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asked.append(answer)
        self._loop.wake()
        timeout_sec = self._connection.config.nats_request_timeout_sec
        try:
            async with asyncio.timeout(timeout_sec):
                await answer
        except TimeoutError:
            # The look that was under way may have taken all of it.
            why = f"the API keys could not be confirmed within {timeout_sec:g} s"
            raise self._connection.unavailable(why) from None

    def check(self, text: str) -> Grant:
        """What the key gives; ApiKeyInvalid says why it gives nothing, to its owner only."""
        mark = fingerprint(text)
        grant = self._proven.get(mark)
        if grant is None:
            grant = self._proven[mark] = self._prove(text)
        now = time.time()
        if why := grant.rejection(now):
            raise ApiKeyInvalid(f"the key {grant.key_id}: {why}")
        self._used[grant.key_id] = now
        return grant

    def _prove(self, text: str) -> Grant:
        token = Token.parse(text)
        if token is None:
            raise ApiKeyInvalid("it does not have the form of a key, pyoco_<id>_<secret>")
        grant = self._matching(token)
        if grant is None:
            raise ApiKeyInvalid("there is no such key")
        return grant

    def _matching(self, token: Token) -> Grant | None:
        known = self._grants.get(token.key_id)
        found = None
        for grant in known or self._nobody:
            digest = digest_of(token.secret, grant.secret.salt, self._pepper)
            if same(digest, grant.secret.digest):
                found = grant
        return found if known else None

    def _heard_of_a_write(self) -> None:
        self._hinted = True
        self._loop.wake()

    async def _on_connected(self) -> None:
        self._loop.wake()

    async def _step(self) -> None:
        await self._loop.pause(self._pause_sec)
        hinted, self._hinted = self._hinted, False
        asked, self._asked = self._asked, []
        self._pause_sec = _LOOK_SEC
        try:
            changed = await self._mirror.look()
        except NatsUnavailable as error:
            # Those who have asked meanwhile as well: another look would not do better, but last as long.
            asked, self._asked = [*asked, *self._asked], []
            _answer(asked, error)
            await self._mend()
        except BaseException:
            _answer(asked, self._connection.unavailable("the API keys could not be read"))
            raise
        else:
            if changed:
                self._renew()
            elif hinted:
                self._pause_sec = _STORED_SEC
            _answer(asked)
            await self._record_uses()
        self._end_expired()

    async def _mend(self) -> None:
        """A bucket that was deleted under us is made anew; its keys are gone."""
        if self._connection.ready:
            with suppress(NatsUnavailable):
                await ensure_api_keys(self._connection)

    def _renew(self) -> None:
        before, self._grants = self._grants, {}
        self._proven.clear()
        for key_id, record in self._mirror.entries.records.items():
            known = before.pop(key_id, [])
            if not known and record.peppered != bool(self._pepper):
                log.warning(
                    "the API key %s was made %s a pepper, unlike those of this gateway, and is refused: "
                    "rotate it with the gateway's PYOCO_AUTH_PEPPER",
                    key_id,
                    "with" if record.peppered else "without",
                )
            self._grants[key_id] = [_kept(_grant(record, secret), known) for secret in record.secrets]
            _end(grant for grant in known if grant not in self._grants[key_id])
        for grants in before.values():
            _end(grants)

    def _end_expired(self) -> None:
        now = time.time()
        for grants in self._grants.values():
            _end(grant for grant in grants if grant.rejection(now))

    async def _record_uses(self) -> None:
        """Rarely, and here rather than while a request waits."""
        if not self._used:
            return
        now, known = time.time(), self._mirror.entries.last_used
        due = [key_id for key_id in self._used if now - known.get(key_id, 0.0) >= USE_SEC]
        for key_id in due[:_USES_AT_ONCE]:
            used_at = self._used.pop(key_id)
            try:
                await self._store.note_use(key_id, used_at)
            except NatsUnavailable as error:
                log.debug("the last use of the key %s is not written down: %s", key_id, error)
                self._used.setdefault(key_id, used_at)
                return
            known[key_id] = used_at


def _grant(record: ApiKeyRecord, secret: StoredSecret) -> Grant:
    # A scope of a later version is unknown here, and gives nothing.
    named = frozenset(scope for scope in Scope if scope in record.scopes)
    return Grant(
        key_id=record.key_id,
        tenant_id=record.tenant_id,
        name=record.name,
        scopes=named if record.scopes else ALL_SCOPES,
        secret=secret,
        revoked_at=record.revoked_at,
        expires_at=record.expires_at,
    )


def _dummy_record() -> ApiKeyRecord:
    return ApiKeyRecord(key_id="", tenant_id="", secrets=(), peppered=False, created_at=0.0, revoked_at=0.0)


def _kept(fresh: Grant, known: list[Grant]) -> Grant:
    """The grant that is known already, if it says the same: others hold on to it."""
    return next((grant for grant in known if grant.is_as(fresh)), fresh)


def _end(grants: Iterable[Grant]) -> None:
    for grant in grants:
        grant.over.set()


def _answer(asked: list[asyncio.Future[None]], error: NatsUnavailable | None = None) -> None:
    for answer in asked:
        # Who asked may have stopped waiting.
        if answer.done():
            continue
        if error is None:
            answer.set_result(None)
        else:
            answer.set_exception(error)
