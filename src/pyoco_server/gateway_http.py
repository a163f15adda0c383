"""One HTTP connection to a gateway: its answers as dictionaries or events, its errors as exceptions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Self

import httpx

from .errors import Err, FieldProblem, Lang, PyocoError
from .event_stream import MEDIA_TYPE, SILENCE_LIMIT_SEC, ServerSentEvent, events_in
from .loopback import is_loopback
from .setting import safe_url

# What a header can carry.
_HEADER_VALUE: Final = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")


class GatewayUnreachable(PyocoError):
    """The gateway does not answer: it is not running, or not at this address."""

    error = Err.GATEWAY_UNREACHABLE


class PyocoHttpError(httpx.HTTPStatusError):
    """The gateway answered with an error; its members are those of the answer."""

    def __init__(self, response: httpx.Response) -> None:
        problem = _problem_of(response)
        status = f"{response.status_code} {response.reason_phrase}"
        self.title: str = problem.get("title") or status
        self.detail: str = problem.get("detail") or _beginning_of(response)
        self.err_id: str | None = problem.get("err_id")
        self.msg_id: str | None = problem.get("msg_id")
        self.errors: list[FieldProblem] = [_field_problem(item) for item in problem.get("errors") or []]
        ids = f"{self.err_id} " if self.err_id else ""
        super().__init__(f"{ids}({status}) {self.detail}", request=response.request, response=response)

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.response.status_code


class GatewayHttp:
    """What every question to the gateway goes through."""

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8000",
        *,
        api_key: str | None = None,
        api_key_header: str = "X-API-Key",
        language: Lang = "en",
        timeout: float = 30.0,
    ) -> None:
        headers: dict[str, str] = {"Accept-Language": language}
        if api_key:
            headers[api_key_header] = sendable(api_key, "API key")
        self.base_url = base_url.rstrip("/")
        host = _host_of(base_url)
        self._http = httpx.Client(
            base_url=self.base_url,
            headers=headers,
            timeout=httpx.Timeout(timeout, connect=min(timeout, 5.0)),
            # A proxy of the environment cannot reach this machine's own loopback.
            trust_env=not is_loopback(host),
        )

    def close(self) -> None:
        """Close the connections to the gateway."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _json(self, method: str, path: str, **request: Any) -> dict[str, Any]:
        try:
            response = self._http.request(method, path, **request)
        except httpx.TransportError as error:
            raise self._unreachable(error) from error
        if not response.is_success:
            raise PyocoHttpError(response)
        answer = _object_in(response)
        if answer is None:
            raise self._no_gateway(response)
        return answer

    def _events(self, path: str, query: Mapping[str, Any], last_id: str | None) -> Iterator[ServerSentEvent]:
        """The events of one answer, until it ends or is cut off."""
        headers = {"Accept": MEDIA_TYPE} | ({} if last_id is None else {"Last-Event-ID": last_id})
        timeout = httpx.Timeout(SILENCE_LIMIT_SEC, connect=self._http.timeout.connect)
        opened = False
        try:
            with self._http.stream("GET", path, params=query, headers=headers, timeout=timeout) as response:
                if not response.is_success:
                    response.read()
                    raise PyocoHttpError(response)
                if not response.headers.get("content-type", "").startswith(MEDIA_TYPE):
                    raise self._no_gateway(response)
                opened = True
                yield from events_in(response.iter_bytes())
        except httpx.TransportError as error:
            if not opened:
                raise self._unreachable(error) from error

    def _unreachable(self, error: httpx.TransportError) -> GatewayUnreachable:
        return GatewayUnreachable(f"{safe_url(self.base_url)}: {str(error) or type(error).__name__}")

    def _no_gateway(self, response: httpx.Response) -> GatewayUnreachable:
        asked = f"{response.request.method} {response.request.url.path}"
        return GatewayUnreachable(
            f"{safe_url(self.base_url)}: what answers there is no pyoco-server gateway "
            f"({asked} gave {response.headers.get('content-type', 'no content type')})"
        )


def _object_in(response: httpx.Response) -> dict[str, Any] | None:
    try:
        content = response.json()
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def _problem_of(response: httpx.Response) -> dict[str, Any]:
    """The members of the error answer; none when something else than the gateway made it, such as a proxy."""
    is_problem = response.headers.get("content-type", "").startswith("application/problem+json")
    return (_object_in(response) or {}) if is_problem else {}


def _beginning_of(response: httpx.Response) -> str:
    return response.text.strip()[:500] or f"{response.status_code} {response.reason_phrase}"


def _field_problem(item: Mapping[str, Any]) -> FieldProblem:
    known = {name: item.get(name) for name in ("value", "line", "column")}
    return FieldProblem(str(item.get("field", "")), str(item.get("message", "")), **known)


def _host_of(base_url: str) -> str:
    # The reason of httpx is left out: it may quote a password.
    wrong = f"{safe_url(base_url)!r} is no address of a gateway; wanted a URL such as http://127.0.0.1:8000"
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL:
        raise ValueError(wrong) from None
    if not url.host or url.scheme not in ("http", "https"):
        raise ValueError(wrong)
    return url.host


def sendable(text: str, what: str) -> str:
    """The text itself, or a ValueError: a line break in a header would begin a header of its own."""
    if not _HEADER_VALUE.fullmatch(text):
        raise ValueError(
            f"the {what} has a character that an HTTP header cannot carry; wanted visible ASCII characters"
        )
    return text
