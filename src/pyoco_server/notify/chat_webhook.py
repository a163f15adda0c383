"""Messages to a Google Chat space. Its webhook is a secret: it is in no log, answer or audit row."""

import asyncio
import logging
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, urlencode, urlsplit

if TYPE_CHECKING:
    import httpx

log = logging.getLogger(__name__)

TIMEOUT_SEC: Final = 10.0
_SHOWN: Final = 4
_MAX_HIDDEN: Final = 2 * _SHOWN
# A message may mention people and hide links between these.
_HARMLESS: Final = str.maketrans({"<": "‹", ">": "›"})


@dataclass(frozen=True, slots=True)
class ChatResult:
    ok: bool
    # Of Google Chat; 502: there was no answer.
    http_status: int
    message: str


class ChatSender:
    """Sends to the given webhook, and follows no redirect to another address."""

    def __init__(self, transport: "httpx.AsyncBaseTransport | None" = None) -> None:
        """`transport` replaces the network in tests."""
        self.transport = transport

    async def send(self, webhook: str, text: str) -> ChatResult:
        # It takes 5 MB.
        import httpx  # noqa: PLC0415

        from pyoco_server.aio.async_http import AsyncHttpClient  # noqa: PLC0415

        try:
            async with (
                asyncio.timeout(TIMEOUT_SEC),
                AsyncHttpClient(
                    timeout=TIMEOUT_SEC, follow_redirects=False, transport=self.transport
                ) as client,
            ):
                answer = await client.post(webhook, json={"text": text})
        except (TimeoutError, httpx.TimeoutException):
            return ChatResult(False, HTTPStatus.BAD_GATEWAY, f"no response within {TIMEOUT_SEC:g} s")
        except (httpx.HTTPError, OSError) as error:
            # Its text may contain the address.
            return ChatResult(
                False, HTTPStatus.BAD_GATEWAY, f"Google Chat cannot be reached: {type(error).__name__}"
            )
        if answer.is_success:
            return ChatResult(True, answer.status_code, "The message was sent.")
        if answer.status_code < HTTPStatus.BAD_REQUEST:
            why = f"Google Chat answered with {answer.status_code}, which is not followed"
            return ChatResult(False, HTTPStatus.BAD_GATEWAY, why)
        return ChatResult(False, answer.status_code, f"Google Chat answered with {answer.status_code}.")


def masked(webhook: str) -> str:
    """The webhook with its space, key and token shortened."""
    parts = urlsplit(webhook)
    query = parse_qs(parts.query)
    space = parts.path.split("/")[3]
    shown = {name: _shortened(query[name][0]) for name in ("key", "token")}
    path = f"/v1/spaces/{_shortened(space)}/messages"
    return f"{parts.scheme}://{parts.netloc}{path}?{urlencode(shown, safe='*.')}"


def without_markup(text: str) -> str:
    """A text from outside, without mentions and links."""
    return text.translate(_HARMLESS)


def _shortened(secret: str) -> str:
    # The first and the last characters of a short one would be all of it.
    if len(secret) <= _MAX_HIDDEN:
        return "*" * len(secret)
    return f"{secret[:_SHOWN]}...{secret[-_SHOWN:]}"
