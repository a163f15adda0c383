"""API keys, created as the admin commands do."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from pyoco_server.auth.key_administration import KeyAdministration
from pyoco_server.auth.scopes import Scope
from pyoco_server.broker.client.connection import Connection
from pyoco_server.config import NatsBackendConfig
from tests.support.broker.connections import connected


@dataclass(frozen=True)
class Key:
    key_id: str
    text: str

    @property
    def header(self) -> dict[str, str]:
        return {"X-API-Key": self.text}


@asynccontextmanager
async def _administration(at: NatsBackendConfig | Connection) -> AsyncIterator[KeyAdministration]:
    if isinstance(at, Connection):
        yield KeyAdministration(at)
    else:
        async with connected(at) as connection:
            yield KeyAdministration(connection)


async def new_key(
    at: NatsBackendConfig | Connection,
    tenant: str = "acme",
    *,
    scopes: Iterable[Scope] = (),
    expires_at: float | None = None,
) -> Key:
    async with _administration(at) as keys:
        record, token = await keys.create(tenant, name="test", scopes=list(scopes), expires_at=expires_at)
    return Key(record.key_id, token.text())


async def revoke(at: NatsBackendConfig | Connection, key: Key) -> None:
    async with _administration(at) as keys:
        await keys.revoke(key.key_id)


async def rotate(at: NatsBackendConfig | Connection, key: Key, *, overlap_sec: float = 0.0) -> Key:
    async with _administration(at) as keys:
        _, token = await keys.rotate(key.key_id, overlap_sec=overlap_sec)
    return Key(key.key_id, token.text())
