"""Creating, listing, revoking and rotating API keys."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from msgspec import structs

from pyoco_server.auth.scopes import Scope
from pyoco_server.auth.tokens import Token, is_key_id, new_token, stored_secret
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.api_keys import ApiKeyMirror, ApiKeyRecord, ApiKeys
from pyoco_server.errors import InvalidCliArgument


class ApiKeyNotFound(Exception):
    """There is no API key of this id."""

    def __init__(self, key_id: str) -> None:
        super().__init__(f"there is no API key {key_id}")
        self.key_id = key_id


class KeyState(StrEnum):
    ACTIVE = "active"
    EXPIRED = "expired"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True)
class ListedKey:
    record: ApiKeyRecord
    last_used_at: float | None


def state_of(record: ApiKeyRecord) -> KeyState:
    if record.revoked_at is not None:
        return KeyState.REVOKED
    if record.expires_at is not None and record.expires_at <= time.time():
        return KeyState.EXPIRED
    return KeyState.ACTIVE


class KeyAdministration:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._keys = ApiKeys(connection)
        self._pepper = connection.config.auth_pepper

    async def create(
        self,
        tenant_id: str,
        *,
        name: str,
        scopes: list[Scope],
        expires_at: float | None,
        groups: Sequence[str] = (),
    ) -> tuple[ApiKeyRecord, Token]:
        token = new_token()
        record = ApiKeyRecord(
            key_id=token.key_id,
            tenant_id=tenant_id,
            name=name,
            scopes=tuple(scopes),
            groups=tuple(dict.fromkeys(groups)),
            secrets=(stored_secret(token, self._pepper),),
            peppered=bool(self._pepper),
            created_at=time.time(),
            expires_at=expires_at,
        )
        await self._keys.create(record)
        return record, token

    async def list(self, tenant_id: str | None) -> list[ListedKey]:
        """The keys of a tenant (None: all), the newest first."""
        mirror = ApiKeyMirror(self._connection)
        await mirror.poll()
        found = [
            ListedKey(record, mirror.entries.last_used.get(record.key_id))
            for record in mirror.entries.records.values()
            if tenant_id is None or record.tenant_id == tenant_id
        ]
        return sorted(found, key=lambda key: -key.record.created_at)

    async def revoke(self, key_id: str) -> ApiKeyRecord:
        """Permanent; a key that is revoked already stays as it is."""

        def revoked(record: ApiKeyRecord) -> ApiKeyRecord:
            return record if record.revoked_at else structs.replace(record, revoked_at=time.time())

        return await self._change(key_id, revoked)

    async def rotate(self, key_id: str, *, overlap_sec: float) -> tuple[ApiKeyRecord, Token]:
        """A new secret; the current one stays valid for `overlap_sec`, older ones end now."""
        token = new_token(key_id)
        fresh = stored_secret(token, self._pepper)

        def rotated(record: ApiKeyRecord) -> ApiKeyRecord:
            if (state := state_of(record)) is not KeyState.ACTIVE:
                raise InvalidCliArgument(f"the API key {key_id} is {state}: create another one instead")
            kept = record.secrets[:1] if overlap_sec > 0 else ()
            until = time.time() + overlap_sec
            secrets = (fresh, *(structs.replace(secret, valid_until=until) for secret in kept))
            return structs.replace(record, secrets=secrets, peppered=bool(self._pepper))

        return await self._change(key_id, rotated), token

    async def _change(self, key_id: str, change: Callable[[ApiKeyRecord], ApiKeyRecord]) -> ApiKeyRecord:
        record = await self._keys.change(key_id, change) if is_key_id(key_id) else None
        if record is None:
            raise ApiKeyNotFound(key_id)
        return record
