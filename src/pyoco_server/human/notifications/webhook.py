"""One notification as it goes over the wire: what it tells, how it is signed, and what the answer means.

It follows Standard Webhooks (headers `webhook-id`, `webhook-timestamp`, `webhook-signature`), so that a
receiver need not write the check itself. It tells that somebody is asked, and where; not what they may see
only there: no schema, no proposal, no answer, no note.
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

_ENCODED_SECRET: Final = "whsec_"  # noqa: S105 - how a secret begins that is written in base64
# A short answer is read to its end, so that the connection can be used again.
_READ_BYTES: Final = 64 * 1024


class Outcome(StrEnum):
    DELIVERED = "delivered"
    # It may do better later.
    FAILED = "failed"
    # The receiver is gone, and says so.
    GONE = "gone"


class Receiver:
    """Whoever listens at `PYOCO_NOTIFY_URL`."""

    def __init__(self, config: NatsBackendConfig) -> None:
        self._url = config.notify_url
        self._key = signing_key(config.notify_secret)
        self._timeout_sec = config.notify_timeout_sec
        # A redirect is not followed: what is signed for one receiver is not for another.
        self._http = httpx.AsyncClient(timeout=config.notify_timeout_sec, follow_redirects=False)

    async def close(self) -> None:
        await self._http.aclose()

    async def post(self, event: WaitEvent, body: bytes) -> tuple[Outcome, str]:
        """Tell it once; what came of it, and why."""
        headers = headers_of(event.event_id, body, self._key, int(time.time()))
        try:
            # httpx limits each part of a request, and this all of them.
            async with asyncio.timeout(self._timeout_sec):
                status = await self._status(headers, body)
        except (TimeoutError, httpx.TimeoutException):
            return Outcome.FAILED, f"no answer within {self._timeout_sec:g} s"
        except httpx.InvalidURL:
            # Its reason may quote a password.
            return Outcome.FAILED, "the URL is not valid"
        except (httpx.HTTPError, OSError) as error:
            return Outcome.FAILED, f"{type(error).__name__}: {error}"
        if httpx.codes.is_success(status):
            return Outcome.DELIVERED, ""
        gone = status == httpx.codes.GONE
        return Outcome.GONE if gone else Outcome.FAILED, f"the receiver answered with {status}"

    async def _status(self, headers: dict[str, str], body: bytes) -> int:
        async with self._http.stream("POST", self._url, content=body, headers=headers) as answer:
            received = 0
            async for part in answer.aiter_raw():
                received += len(part)
                if received > _READ_BYTES:
                    break
            return answer.status_code


def signing_key(secret: str) -> bytes:
    """The key itself: after `whsec_` it is written in base64, otherwise it is the text."""
    if secret.startswith(_ENCODED_SECRET):
        try:
            return base64.b64decode(secret.removeprefix(_ENCODED_SECRET), validate=True)
        except binascii.Error:
            # Then it only looks like it.
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
    """What is told: enough to ask the right person, and to know when nobody needs to be asked any more."""
    by = None if event.actor is None else event.actor.name
    told: dict[str, Any] = {
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
            # As it is now: an event may be told late.
            "state": wait.state,
            "decided_at": wait.decided_at,
        },
        "run": {
            "run_id": wait.run_id,
            "flow_name": wait.flow_name,
            "tag": wait.tag,
            "tenant_id": wait.tenant_id,
        },
        # The dashboard's page. Without the `#` it would be the API's answer, which is no page.
        "link": f"{public_url.rstrip('/')}/#/waits/{wait.wait_id}" if public_url else None,
    }
    return msgspec.json.encode(told)
