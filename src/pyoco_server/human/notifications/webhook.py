"""One webhook: its body, its signature, and the meaning of the response.

It follows Standard Webhooks (headers `webhook-id`, `webhook-timestamp`, `webhook-signature`). The body says
who is asked, and where; it has no schema, proposal, answer or note, which need the permission to read waits.
"""

import asyncio
import base64
import binascii
import hmac
import time
from enum import StrEnum
from typing import Any, Final

import httpx
import msgspec

from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.wait_models import WaitEvent, WaitRecord
from pyoco_server.version import __version__

_ENCODED_SECRET: Final = "whsec_"  # noqa: S105 - the prefix of a secret in base64
# A short response is read to its end, so that the connection can be reused.
_READ_BYTES: Final = 64 * 1024


class DeliveryResult(StrEnum):
    DELIVERED = "delivered"
    FAILED = "failed"
    # The receiver wants no more of it (status 410).
    GONE = "gone"


class WebhookClient:
    def __init__(self, config: NatsBackendConfig) -> None:
        self._url = config.notify_url
        self._key = signing_key(config.notify_secret)
        self._timeout_sec = config.notify_timeout_sec
        # A redirect is not followed: the signature is for this receiver.
        self._http = httpx.AsyncClient(timeout=config.notify_timeout_sec, follow_redirects=False)

    async def close(self) -> None:
        await self._http.aclose()

    async def post(self, event: WaitEvent, body: bytes) -> tuple[DeliveryResult, str]:
        headers = headers_of(event.event_id, body, self._key, int(time.time()))
        try:
            # The timeout of httpx is for each part of a request.
            async with asyncio.timeout(self._timeout_sec):
                status = await self._status(headers, body)
        except (TimeoutError, httpx.TimeoutException):
            return DeliveryResult.FAILED, f"no response within {self._timeout_sec:g} s"
        except httpx.InvalidURL:
            # The text of this error may contain a password.
            return DeliveryResult.FAILED, "the URL is not valid"
        except (httpx.HTTPError, OSError) as error:
            return DeliveryResult.FAILED, f"{type(error).__name__}: {error}"
        if httpx.codes.is_success(status):
            return DeliveryResult.DELIVERED, ""
        gone = status == httpx.codes.GONE
        return DeliveryResult.GONE if gone else DeliveryResult.FAILED, f"the receiver answered with {status}"

    async def _status(self, headers: dict[str, str], body: bytes) -> int:
        async with self._http.stream("POST", self._url, content=body, headers=headers) as response:
            received = 0
            async for part in response.aiter_raw():
                received += len(part)
                if received > _READ_BYTES:
                    break
            return response.status_code


def signing_key(secret: str) -> bytes:
    """Base64 after the prefix `whsec_`, otherwise the text itself."""
    if secret.startswith(_ENCODED_SECRET):
        try:
            return base64.b64decode(secret.removeprefix(_ENCODED_SECRET), validate=True)
        except binascii.Error:
            return secret.encode()
    return secret.encode()


def headers_of(event_id: str, body: bytes, key: bytes, now: int) -> dict[str, str]:
    headers = {
        "content-type": "application/json",
        "user-agent": f"pyoco-server/{__version__}",
        "webhook-id": event_id,
        "webhook-timestamp": str(now),
    }
    if key:
        signed = hmac.digest(key, f"{event_id}.{now}.".encode() + body, "sha256")
        headers["webhook-signature"] = f"v1,{base64.b64encode(signed).decode()}"
    return headers


def body_of(event: WaitEvent, wait: WaitRecord, public_url: str) -> bytes:
    by = None if event.actor is None else event.actor.name
    body: dict[str, Any] = {
        "event": {
            "id": event.event_id,
            "kind": event.kind,
            "at": event.at,
            "by": by,
            "decision": event.decision,
        },
        "wait": {
            "wait_id": wait.wait_id,
            "task": wait.task,
            "name": wait.name,
            "message": wait.message,
            "assignees": wait.assignees,
            "arming": wait.arming,
            "created_at": wait.created_at,
            "deadline_at": wait.deadline_at,
            # As it is now: an event may be sent late.
            "state": wait.state,
            "decided_at": wait.decided_at,
        },
        "run": {
            "run_id": wait.run_id,
            "flow_name": wait.flow_name,
            "tag": wait.tag,
            "tenant_id": wait.tenant_id,
        },
        # The page of the dashboard; the same path without the `#` is the API.
        "link": f"{public_url.rstrip('/')}/#/waits/{wait.wait_id}" if public_url else None,
    }
    return msgspec.json.encode(body)
