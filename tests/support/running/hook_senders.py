"""Hooks of a gateway under test, and their senders."""

import hmac
import time
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx
import msgspec

from pyoco_server.triggers.secret_keys import new_key
from tests.support.waiting import eventually

# Of the gateways of one test.
SECRETS_KEY = new_key()


@dataclass
class HookSender:
    """A hook, and how its sender proves a delivery."""

    http: httpx.AsyncClient
    hook_id: str
    kind: str
    secret: str
    record: dict[str, Any] = field(default_factory=dict)

    def headers(self, body: bytes, delivery_id: str) -> dict[str, str]:
        key, at = self.secret.encode(), str(int(time.time()))
        if self.kind == "token":
            return {"x-hook-token": self.secret, "idempotency-key": delivery_id}
        if self.kind == "github":
            mac = hmac.digest(key, body, "sha256").hex()
            return {"x-hub-signature-256": f"sha256={mac}", "x-github-delivery": delivery_id}
        if self.kind == "stripe":
            mac = hmac.digest(key, f"{at}.".encode() + body, "sha256").hex()
            return {"stripe-signature": f"t={at},v1={mac}"}
        if self.kind == "standard-webhooks":
            key = b64decode(self.secret.removeprefix("whsec_"))
            mac = b64encode(hmac.digest(key, f"{delivery_id}.{at}.".encode() + body, "sha256")).decode()
            return {
                "webhook-id": delivery_id,
                "webhook-timestamp": at,
                "webhook-signature": f"v1,{mac}",
            }
        mac = hmac.digest(key, body, "sha256").hex()
        return {"x-signature": mac, "idempotency-key": delivery_id}

    async def send(
        self,
        body: Any = None,
        delivery_id: str = "",
        *,
        http: httpx.AsyncClient | None = None,
        headers: dict[str, str] | None = None,
    ) -> httpx.Response:
        """A new delivery; the same `delivery_id` is a repetition. `http` is another gateway."""
        delivery_id = delivery_id or str(uuid4())
        content = msgspec.json.encode(body if body is not None else {"id": delivery_id})
        proof = self.headers(content, delivery_id)
        return await (http or self.http).post(
            f"/hooks/{self.hook_id}", content=content, headers={**proof, **(headers or {})}
        )

    async def started(self, body: Any = None, delivery_id: str = "") -> str:
        """The id of the run."""
        response = await self.send(body, delivery_id)
        assert response.status_code == 202, response.text
        run_id: str = response.json()["run_id"]
        return run_id

    async def deliveries(self, count: int, **query: Any) -> list[dict[str, Any]]:
        """The kept ones, once there are so many: they are written after the answer."""

        async def found() -> list[dict[str, Any]] | None:
            response = await self.http.get(f"/hooks/{self.hook_id}/deliveries", params=query)
            assert response.status_code == 200, response.text
            items: list[dict[str, Any]] = response.json()["items"]
            return items if len(items) >= count else None

        return await eventually(found, describe=f"{count} deliveries of {self.hook_id} are kept")


async def a_hook(http: httpx.AsyncClient, kind: str = "token", **fields: Any) -> HookSender:
    """A new hook that starts runs of the flow `noop`."""
    hook_id = fields.pop("hook_id", f"{kind}-{uuid4().hex[:12]}")
    body = {"hook_id": hook_id, "kind": kind, "flow_name": "noop", **fields}
    response = await http.post("/hooks", json=body)
    assert response.status_code == 201, response.text
    made = response.json()
    return HookSender(http, made["hook_id"], kind, made["secret"] or "", made)
