"""The client library: everything a program can ask the gateway, as plain method calls.

    with PyocoHttpClient("http://127.0.0.1:8000") as client:
        run = client.submit_run("greet", params={"name": "Ada"})
        print(client.wait(run["run_id"])["status"])

An answer of 4xx or 5xx raises PyocoHttpError, a gateway that does not answer raises GatewayUnreachable. An
address or API key that cannot be used at all is a ValueError when the client is made.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote

import httpx

from .errors import Err, FieldProblem, Lang, PyocoError
from .loopback import is_loopback
from .models import TERMINAL
from .setting import safe_url

__all__ = ["GatewayUnreachable", "PyocoHttpClient", "PyocoHttpError"]

# What a header can carry. A line break in it would begin a header of its own.
_HEADER_VALUE: Final = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
_FIRST_POLL_SEC: Final = 0.05
_SLOWEST_POLL_SEC: Final = 1.0
# A gateway that restarts, or loses NATS for a moment, does not end a wait: the run goes on without it.
_OUTAGE_PATIENCE_SEC: Final = 30.0


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


class PyocoHttpClient:
    """A connection to one gateway. Close it when done, or use it in a `with` statement."""

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
            headers[api_key_header] = _sendable_key(api_key)
        self.base_url = base_url.rstrip("/")
        host = _host_of(base_url)
        self._http = httpx.Client(
            base_url=self.base_url,
            headers=headers,
            timeout=httpx.Timeout(timeout, connect=min(timeout, 5.0)),
            # A proxy of the environment cannot reach this machine's own loopback.
            trust_env=not is_loopback(host),
        )

    def submit_run(
        self,
        flow_name: str,
        params: Mapping[str, Any] | None = None,
        tag: str | None = None,
        tags: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """Submit a run of a flow that the workers know: its `run_id` and `status`."""
        wanted = {"flow_name": flow_name, "params": params, "tag": tag, "tags": tags}
        body = {name: value for name, value in wanted.items() if value is not None}
        return self._json("POST", "/runs", json=body)

    def submit_run_yaml(
        self, workflow_yaml: str | bytes, flow_name: str, tag: str | None = None
    ) -> dict[str, Any]:
        """Submit the text of a flow.yaml as a run of the given name."""
        content = workflow_yaml.encode() if isinstance(workflow_yaml, str) else workflow_yaml
        fields = {"flow_name": flow_name} if tag is None else {"flow_name": flow_name, "tag": tag}
        return self._json("POST", "/runs/yaml", data=fields, files={"workflow": ("flow.yaml", content)})

    def get_run(self, run_id: str, include: Sequence[str] = ()) -> dict[str, Any]:
        """The newest snapshot of a run; `include=["records"]` adds its task records."""
        query = {"include": list(include)} if include else None
        return self._json("GET", f"/runs/{quote(run_id, safe='')}", params=query)

    def get_tasks(self, run_id: str) -> dict[str, Any]:
        """The states and the records of a run's tasks."""
        return self._json("GET", f"/runs/{quote(run_id, safe='')}/tasks")

    def cancel_run(self, run_id: str, reason: str | None = None) -> dict[str, Any]:
        """Ask a run to stop: its snapshot, CANCELLING unless it has ended already."""
        body = {} if reason is None else {"reason": reason}
        return self._json("POST", f"/runs/{quote(run_id, safe='')}/cancel", json=body)

    def health(self) -> dict[str, Any]:
        """How the gateway and its connection to NATS are."""
        return self._json("GET", "/health")

    def wait(self, run_id: str, timeout_sec: float | None = None) -> dict[str, Any]:
        """The snapshot of a run that has ended; TimeoutError when it has not in `timeout_sec`."""
        snapshot: dict[str, Any] = {}
        for snapshot in self.follow(run_id, timeout_sec):  # noqa: B007 - the last one is what counts
            pass
        return snapshot

    def follow(self, run_id: str, timeout_sec: float | None = None) -> Iterator[dict[str, Any]]:
        """Each new snapshot of a run as it is seen, the one of its end last; TimeoutError as in `wait`."""
        started = time.monotonic()
        deadline = None if timeout_sec is None else started + timeout_sec
        answered = started
        pause = _FIRST_POLL_SEC
        newest: dict[str, Any] = {}
        while True:
            try:
                snapshot = self.get_run(run_id)
                answered = time.monotonic()
            except (GatewayUnreachable, PyocoHttpError) as error:
                if not _passes(error) or time.monotonic() - answered > _OUTAGE_PATIENCE_SEC:
                    raise
                snapshot = newest
            if _changed(snapshot, newest):
                newest, pause = snapshot, _FIRST_POLL_SEC
                yield snapshot
            if newest.get("status") in TERMINAL:
                return
            if deadline is not None and time.monotonic() + pause > deadline:
                raise TimeoutError(_not_ended(run_id, newest, timeout_sec))
            time.sleep(pause)
            pause = min(pause * 1.5, _SLOWEST_POLL_SEC)

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
            reason = str(error) or type(error).__name__
            raise GatewayUnreachable(f"{safe_url(self.base_url)}: {reason}") from error
        if not response.is_success:
            raise PyocoHttpError(response)
        answer = _object_in(response)
        if answer is None:
            raise GatewayUnreachable(
                f"{safe_url(self.base_url)}: what answers there is no pyoco-server gateway "
                f"({method} {path} gave {response.headers.get('content-type', 'no content type')})"
            )
        return answer


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


def _passes(error: GatewayUnreachable | PyocoHttpError) -> bool:
    """Whether the same question may be answered a moment later."""
    return not isinstance(error, PyocoHttpError) or error.status == HTTPStatus.SERVICE_UNAVAILABLE


def _changed(snapshot: Mapping[str, Any], earlier: Mapping[str, Any]) -> bool:
    watched = ("status", "tasks", "attempt", "worker_id")
    return any(snapshot.get(name) != earlier.get(name) for name in watched)


def _not_ended(run_id: str, newest: Mapping[str, Any], timeout_sec: float | None) -> str:
    return f"run {run_id} is still {newest.get('status', 'unknown')} after {timeout_sec:g} s; it goes on"


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


def _sendable_key(api_key: str) -> str:
    if not _HEADER_VALUE.fullmatch(api_key):
        raise ValueError(
            "the API key has a character that an HTTP header cannot carry; wanted visible ASCII characters"
        )
    return api_key
