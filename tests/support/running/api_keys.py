"""API keys, created as the admin commands do."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from pyoco_server.auth import api_key_cache
from pyoco_server.auth.api_key_cache import ApiKeyCache
from pyoco_server.auth.key_administration import KeyAdministration
from pyoco_server.auth.scopes import Scope
from pyoco_server.broker.client.connection import Connection
from pyoco_server.config import NatsBackendConfig
from tests.support.broker.connections import connected
from tests.support.waiting import NEVER_SEC


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


def without_background_refreshes(monkeypatch: pytest.MonkeyPatch, *running: ApiKeyCache) -> None:
    """A gateway learns of a later key by a lookup only: each that starts from now on, and these.

    One that runs already needs a `confirm` afterwards, which ends its current interval.
    """
    monkeypatch.setattr(ApiKeyCache, "_on_write_hint", lambda self: None)
    for keys in running:
        monkeypatch.setattr(keys._mirror, "_on_hint", lambda: None)
    monkeypatch.setattr(api_key_cache, "_POLL_SEC", NEVER_SEC)
    monkeypatch.setattr(api_key_cache, "TRUST_SEC", NEVER_SEC)
