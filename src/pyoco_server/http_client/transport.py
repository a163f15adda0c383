"""What both clients share: settings, and the meaning of a response."""

from __future__ import annotations

from typing import Final, Generic, TypeVar

import httpx

from pyoco_server.config.setting import is_loopback, safe_url
from pyoco_server.errors.error_table import Lang
from pyoco_server.http_client.call_types import Request, header_value
from pyoco_server.http_client.client_errors import GatewayUnreachable, NoEventStream, PyocoHttpError
from pyoco_server.http_client.event_stream import MEDIA_TYPE
from pyoco_server.http_client.retry_policy import Retries
from pyoco_server.version import __version__

USER_AGENT: Final = f"pyoco-python/{__version__}"

Http = TypeVar("Http", httpx.Client, httpx.AsyncClient)
T = TypeVar("T")


class ClientBase(Generic[Http]):
    """A connection to one gateway."""

    _http_class: type[Http]

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8000",
        *,
        api_key: str | None = None,
        api_key_header: str = "X-API-Key",
        language: Lang = "en",
        timeout: float = 30.0,
        retries: int = 2,
        patience_sec: float = 30.0,
        user_agent: str = USER_AGENT,
    ) -> None:
        """`timeout` limits one response, in seconds.

        `retries` is how often a request that may be repeated is sent again when the gateway is away for a
        moment. `patience_sec` is how long a wait or a stream outlives such an outage; a submit waits for
        NATS for at most 12 seconds of it. `user_agent` names the program in the audit log.
        """
        headers: dict[str, str] = {
            "Accept-Language": language,
            "User-Agent": header_value(user_agent, "user agent"),
        }
        if api_key:
            headers[api_key_header] = header_value(api_key, "API key")
        self.base_url = base_url.rstrip("/")
        self._retries = retries
        self._patience_sec = patience_sec
        self._connect_sec = min(timeout, 5.0)
        is_local = is_loopback(_host_of(base_url))
        self._http: Http = self._http_class(
            base_url=self.base_url,
            headers=headers,
            timeout=httpx.Timeout(timeout, connect=self._connect_sec),
            # A proxy of the environment cannot reach this machine's own loopback.
            trust_env=not is_local,
            # Reading the certificates takes longer than most requests, and nothing is encrypted here.
            verify=not (is_local and self.base_url.lower().startswith("http:")),
        )

    def _prepared(self, request: Request[T]) -> tuple[Request[T], Retries]:
        """The request as it is sent, with a key if it submits something, and its retries."""
        if self._retries:
            request = request.with_own_key()
        outlasts = request.submits and request.has_key
        retries = self._retries if request.repeatable else 0
        return request, Retries(retries, patience_sec=self._patience_sec if outlasts else 0.0)

    def _content_of(self, response: httpx.Response, request: Request[T]) -> T:
        if not response.is_success:
            raise PyocoHttpError(response)
        content = request.read(response)
        if content is None:
            raise self._not_a_gateway(response, GatewayUnreachable)
        return content

    def _check_events(self, response: httpx.Response) -> None:
        if not response.is_success:
            raise PyocoHttpError(response)
        if not response.headers.get("content-type", "").startswith(MEDIA_TYPE):
            raise self._not_a_gateway(response, NoEventStream)

    def _unreachable(self, error: httpx.RequestError) -> GatewayUnreachable:
        unreachable = GatewayUnreachable(f"{safe_url(self.base_url)}: {str(error) or type(error).__name__}")
        unreachable.__cause__ = error
        return unreachable

    def _not_a_gateway(
        self, response: httpx.Response, failure: type[GatewayUnreachable]
    ) -> GatewayUnreachable:
        request = f"{response.request.method} {response.request.url.path}"
        return failure(
            f"{safe_url(self.base_url)}: what answers there is no pyoco-server gateway "
            f"({request} gave {response.headers.get('content-type', 'no content type')})"
        )


def _host_of(base_url: str) -> str:
    # The message of httpx is left out: it may quote a password.
    wrong = f"{safe_url(base_url)!r} is no address of a gateway; expected a URL such as http://127.0.0.1:8000"
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL:
        raise ValueError(wrong) from None
    if not url.host or url.scheme not in ("http", "https"):
        raise ValueError(wrong)
    return url.host
