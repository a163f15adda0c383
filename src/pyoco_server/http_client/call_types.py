"""A call as data: one response, all pages of a list, or a stream of events. The two clients send them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, Protocol, TypeVar
from uuid import uuid4

import httpx

from pyoco_server.config.path_segments import path_segment
from pyoco_server.http_client.event_stream import ServerSentEvent

T = TypeVar("T")

Query = Mapping[str, Any]

IDEMPOTENCY_KEY: Final = "Idempotency-Key"

_HEADER_VALUE: Final = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")


def object_in(response: httpx.Response) -> Any:
    """The JSON object of a response, None when it is something else."""
    return _json_in(response, dict)


def array_in(response: httpx.Response) -> Any:
    """The JSON array of a response, None when it is something else."""
    return _json_in(response, list)


def _json_in(response: httpx.Response, kind: type) -> Any:
    try:
        content = response.json()
    except ValueError:
        return None
    return content if isinstance(content, kind) else None


class WritableFile(Protocol):
    """An open binary file."""

    def write(self, block: bytes, /) -> int: ...


@dataclass(frozen=True, slots=True)
class ClientEndpoint:
    """What a client needs of an endpoint; `api/endpoints/` has the rest."""

    method: str
    path: str
    # Whether a request may be repeated without an idempotency key.
    repeatable: bool = False
    returns_array: bool = False

    def url(self, **values: str | int) -> str:
        """The path with its parameters filled in; InvalidRequest if one cannot be part of a path."""
        return self.path.format_map({name: path_segment(name, str(value)) for name, value in values.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(Generic[T]):
    """A request whose response has the type T."""

    method: str
    path: str
    query: Query = field(default_factory=dict)
    json: Any = None
    # A body that is JSON already.
    content: bytes | None = None
    form: Mapping[str, Any] | None = None
    files: Mapping[str, tuple[str, Any]] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    # How long the response may take, where that is longer than usual.
    timeout_sec: float | None = None
    # The content of the response; None when a gateway would not send it.
    read: Callable[[httpx.Response], T | None] = object_in
    # Whether it may be sent again when it is not known whether the gateway has received it.
    repeatable: bool
    # Whether it submits something. With an idempotency key it also waits for the end of an outage.
    submits: bool = False

    @property
    def has_key(self) -> bool:
        return IDEMPOTENCY_KEY in self.headers

    def with_own_key(self) -> Request[T]:
        """With a key of its own, unless the caller has given one: then it may be repeated."""
        if not self.submits or self.has_key:
            return self
        return replace(self, headers={**self.headers, IDEMPOTENCY_KEY: str(uuid4())}, repeatable=True)

    def for_httpx(self) -> dict[str, Any]:
        sent: dict[str, Any] = {
            "json": self.json,
            "content": self.content,
            "data": self.form,
            "files": self.files,
            "params": self.query or None,
        }
        if self.timeout_sec is not None:
            sent["timeout"] = self.timeout_sec
        return {"method": self.method, "url": self.path, "headers": self.headers, **sent}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages(Generic[T]):
    """A list that comes in pages, each with the position of the next one."""

    page: Callable[[str | None], Request[Any]]
    start: str | None = None
    items: str = "items"
    # The position of the next page, given this one and its position; None after the last one.
    next: Callable[[Any, str | None], str | None] = lambda page, _: page.get("next_cursor")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream(Generic[T]):
    """A stream of server-sent events, which is continued after a disconnect."""

    path: str
    query: Query = field(default_factory=dict)
    last_id: str | None = None
    # The item of an event, if it has one.
    read: Callable[[ServerSentEvent], T | None]
    # Whether the event is the last one, given also its item.
    ends: Callable[[ServerSentEvent, T | None], bool]
    # Whether polling can replace it: then a gateway without streams is not retried.
    replaceable: bool = False
    # By the monotonic clock.
    deadline: float | None = None


def call(
    endpoint: ClientEndpoint,
    query: Query | None = None,
    body: Any = None,
    *,
    key: str | None = None,
    repeatable: bool = False,
    read: Callable[[httpx.Response], Any] | None = None,
    form: Mapping[str, Any] | None = None,
    files: Mapping[str, tuple[str, Any]] | None = None,
    timeout_sec: float | None = None,
    submits: bool = False,
    headers: Mapping[str, str] | None = None,
    **path: str | int,
) -> Request[Any]:
    """A request to an endpoint. With an idempotency key it may be repeated."""
    keyed = {} if key is None else {IDEMPOTENCY_KEY: header_value(key, "idempotency key")}
    return Request(
        method=endpoint.method,
        path=endpoint.url(**path),
        query=query or {},
        json=body,
        form=form,
        files=files,
        headers={**keyed, **(headers or {})},
        timeout_sec=timeout_sec,
        read=read or (array_in if endpoint.returns_array else object_in),
        repeatable=repeatable or key is not None or endpoint.repeatable,
        submits=submits,
    )


def given(**fields: Any) -> dict[str, Any]:
    """The fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def header_value(text: str, what: str) -> str:
    """The text itself; ValueError if it could not be a header, or would begin another one."""
    if not _HEADER_VALUE.fullmatch(text):
        raise ValueError(
            f"the {what} has a character that an HTTP header cannot carry; expected visible ASCII characters"
        )
    return text
