"""Sending one webhook, signed as Standard Webhooks describes it."""

import asyncio
import base64
import hmac
import logging
import time
from typing import Final, Literal

import httpx

from pyoco_server.aio.async_http import AsyncHttpClient
from pyoco_server.config import NatsBackendConfig
from pyoco_server.notify.webhook_target import Target
from pyoco_server.version import __version__

log = logging.getLogger(__name__)

_ENCODED_SECRET: Final = "whsec_"  # noqa: S105 - the prefix of a secret in base64
# A short response is read to its end, so that the connection can be reused.
_READ_BYTES: Final = 64 * 1024
# A receiver that has sent its status has decided, however slowly the rest comes.
_READ_SEC: Final = 0.5

# Gone: the receiver wants no more of it (status 410).
WebhookResult = Literal["delivered", "failed", "gone"]


class WebhookClient:
    def __init__(self, config: NatsBackendConfig, transport: httpx.AsyncBaseTransport | None = None) -> None:
        """`transport` is another way to the receivers, such as one that checks their addresses."""
        self._timeout_sec = config.notify_timeout_sec
        # A redirect is not followed: the signature is for this receiver.
        self._http = AsyncHttpClient(
            timeout=config.notify_timeout_sec, follow_redirects=False, transport=transport
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def post(self, target: Target, event_id: str, body: bytes) -> tuple[WebhookResult, str]:
        headers = headers_of(event_id, body, signing_key(target.secret), int(time.time()))
        try:
            status = await self._status(
                self._http.build_request("POST", target.url, content=body, headers=headers)
            )
        except (TimeoutError, httpx.TimeoutException):
            return "failed", f"no response within {self._timeout_sec:g} s"
        except (httpx.InvalidURL, UnicodeError):
            # Or its host name is not valid, such as a..b. The text of this error may contain a password.
            return "failed", "the URL is not valid"
        except (httpx.HTTPError, OSError) as error:
            return "failed", f"{type(error).__name__}: {error}"
        if httpx.codes.is_success(status):
            return "delivered", ""
        gone = status == httpx.codes.GONE
        return "gone" if gone else "failed", f"the receiver answered with {status}"

    async def _status(self, request: httpx.Request) -> int:
        # The timeout of httpx is for each part of a request.
        async with asyncio.timeout(self._timeout_sec):
            response = await self._http.send(request, stream=True)
        try:
            async with asyncio.timeout(_READ_SEC):
                await _read_short(response)
        except (TimeoutError, httpx.HTTPError) as error:
            # Its status says whether it was delivered.
            log.debug("the response of a receiver was not read to its end: %s", error)
        finally:
            await response.aclose()
        return response.status_code


async def _read_short(response: httpx.Response) -> None:
    received = 0
    async for part in response.aiter_raw():
        received += len(part)
        if received > _READ_BYTES:
            return


def signing_key(secret: str) -> bytes:
    """Base64 after the prefix `whsec_`, otherwise the text itself."""
    if secret.startswith(_ENCODED_SECRET):
        try:
            return base64.b64decode(secret.removeprefix(_ENCODED_SECRET), validate=True)
        except ValueError:
            # binascii.Error, or a ValueError for text that is not ASCII.
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
