"""A gateway with API keys, and clients of its tenants."""

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx

from pyoco_server.auth.tokens import new_token, stored_secret
from pyoco_server.broker.stores.api_keys import ApiKeyRecord, ApiKeys
from pyoco_server.config import NatsBackendConfig
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.waiting import LIMIT_SEC

PEPPER = "a pepper"
OPERATOR = "the-operator"


@dataclass(frozen=True)
class Tenant(RunningGateway):
    """A client with the API key of a tenant."""

    tenant_id: str
    api_key_id: str

    async def json(self, path: str, **query: Any) -> Any:
        response = await self.http.get(path, params=query)
        assert response.status_code == 200, response.text
        return response.json()


@asynccontextmanager
async def having_tenants(
    config: NatsBackendConfig, *tenants: str, operator: str = OPERATOR
) -> AsyncIterator[list[Tenant]]:
    """A gateway, and a client with a new key of each tenant."""
    keyed = replace(config, http_auth_mode="api_key", auth_pepper=PEPPER, http_operator_tenant=operator)
    async with AsyncExitStack() as opened:
        gateway = await opened.enter_async_context(running_gateway(keyed))
        yield [await opened.enter_async_context(a_key(gateway, tenant)) for tenant in tenants]


@asynccontextmanager
async def a_key(gateway: RunningGateway, tenant_id: str, **fields: Any) -> AsyncIterator[Tenant]:
    """A client with a new key of the tenant."""
    token = new_token()
    record = ApiKeyRecord(
        key_id=token.key_id,
        tenant_id=tenant_id,
        secrets=(stored_secret(token, PEPPER),),
        peppered=True,
        created_at=time.time(),
        **fields,
    )
    await ApiKeys(gateway.inside.connection).create(record)
    await gateway.inside.authentication.keys.confirm()
    async with httpx.AsyncClient(
        base_url=gateway.http.base_url, timeout=LIMIT_SEC, headers={"X-API-Key": token.text()}, verify=False
    ) as http:
        yield Tenant(http, gateway.inside, tenant_id, token.key_id)
