"""API keys, created as the admin commands do."""

from collections.abc import Iterable
from dataclasses import dataclass

from pyoco_server.auth.key_administration import KeyAdministration
from pyoco_server.auth.scopes import Scope
from pyoco_server.config import NatsBackendConfig
from tests.support.broker.connections import connected


@dataclass(frozen=True)
class Key:
    key_id: str
    text: str

    @property
    def header(self) -> dict[str, str]:
        return {"X-API-Key": self.text}


async def new_key(
    config: NatsBackendConfig,
    tenant: str = "acme",
    *,
    scopes: Iterable[Scope] = (),
    expires_at: float | None = None,
) -> Key:
    async with connected(config) as connection:
        record, token = await KeyAdministration(connection).create(
            tenant, name="test", scopes=list(scopes), expires_at=expires_at
        )
    return Key(record.key_id, token.text())


async def revoke(config: NatsBackendConfig, key: Key) -> None:
    async with connected(config) as connection:
        await KeyAdministration(connection).revoke(key.key_id)


async def rotate(config: NatsBackendConfig, key: Key, *, overlap_sec: float = 0.0) -> Key:
    async with connected(config) as connection:
        _, token = await KeyAdministration(connection).rotate(key.key_id, overlap_sec=overlap_sec)
    return Key(key.key_id, token.text())
