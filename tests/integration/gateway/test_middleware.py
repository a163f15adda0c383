"""Middleware that needs NATS: API keys, and an event stream."""

from dataclasses import replace

from pyoco_server.config import NatsBackendConfig
from tests.support.running.api_keys import new_key
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.unit.http_api.middleware.test_security_headers import ALWAYS


async def test_with_keys_the_origin_is_not_checked_and_each_key_has_a_rate_limit_of_its_own(
    config: NatsBackendConfig,
) -> None:
    first, second = await new_key(config), await new_key(config)
    limited = replace(config, http_auth_mode="api_key", http_rate_limit=0.1, http_rate_limit_burst=2)
    async with running_gateway(limited) as gateway:

        async def status(key: dict[str, str]) -> int:
            headers = {"Host": "any.example", "Origin": "https://attacker.example", **key}
            response = await gateway.http.post("/runs", json={"flow_name": "noop"}, headers=headers)
            return response.status_code

        assert [await status(first.header) for _ in range(3)] == [200, 200, 429]
        assert await status(second.header) == 200
        assert await status({}) == 401


async def test_a_stream_of_events_says_itself_how_it_is_cached(gateway: RunningGateway) -> None:
    run_id = await gateway.submit("noop")
    async with gateway.http.stream("GET", f"/runs/{run_id}/watch") as response:
        assert response.status_code == 200
        assert response.headers.get_list("cache-control") == ["no-store"], "once, and not twice"
        assert ALWAYS.items() <= dict(response.headers).items()
