"""What can be asked of a gateway, as data: one answer, all pages of an answer, or a stream of events.

endpoints.py describes each question once in these words; the two clients know how to ask them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote

import httpx

from pyoco_server.http_client.event_stream import ServerSentEvent

T = TypeVar("T")

Query = Mapping[str, Any]

# What a header can carry.
_HEADER_VALUE: Final = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")


def object_in(response: httpx.Response) -> Any:
    """The JSON object of an answer, None when it is something else."""
    return _json_in(response, dict)


def array_in(response: httpx.Response) -> Any:
    """The JSON array of an answer, None when it is something else."""
    return _json_in(response, list)


def _json_in(response: httpx.Response, wanted: type) -> Any:
    try:
        content = response.json()
    except ValueError:
        return None
    return content if isinstance(content, wanted) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(Generic[T]):
    """A question with one answer, of type T."""

    method: str
    path: str
    query: Query = field(default_factory=dict)
    json: Any = None
    form: Mapping[str, Any] | None = None
    files: Mapping[str, tuple[str, Any]] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    # How long its answer may take, where that is longer than for others.
    timeout_sec: float | None = None
    # What the answer says; None when it is none that a gateway gives.
    read: Callable[[httpx.Response], T | None] = object_in
    # Whether it may be asked again without harm when it is not known whether it was heard.
    repeatable: bool

    def for_httpx(self) -> dict[str, Any]:
        sent: dict[str, Any] = {
            "json": self.json,
            "data": self.form,
            "files": self.files,
            "params": self.query or None,
        }
        if self.timeout_sec is not None:
            sent["timeout"] = self.timeout_sec
        return {"method": self.method, "url": self.path, "headers": self.headers, **sent}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages(Generic[T]):
    """A question whose answer comes in pages; a page says where the next one begins."""

    page: Callable[[str | None], Request[Any]]
    begin: str | None = None
    items: str
    # Where the page behind this one begins, given where this one began; None behind the last one.
    next: Callable[[Any, str | None], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream(Generic[T]):
    """A question whose answer is a stream of events, which is asked again where it was cut off."""

    path: str
    query: Query = field(default_factory=dict)
    last_id: str | None = None
    # What an event tells, if anything.
    read: Callable[[ServerSentEvent], T | None]
    # Whether it was the last one, given also what it told.
    ends: Callable[[ServerSentEvent, T | None], bool]
    # Whether there is another way to know the same: then a refusal is not waited out.
    replaceable: bool = False
    # When to stop, by the monotonic clock.
    deadline: float | None = None


def get(path: str, query: Query | None = None) -> Request[Any]:
    """A question that only reads."""
    return Request(method="GET", path=path, query=query or {}, repeatable=True)


def post(
    path: str,
    body: Mapping[str, Any],
    *,
    query: Query | None = None,
    repeatable: bool = False,
    key: str | None = None,
) -> Request[Any]:
    """A question that does something; once, unless it may be repeated, as it may with an idempotency key."""
    return Request(
        method="POST",
        path=path,
        query=query or {},
        json=body,
        headers=key_header(key),
        repeatable=repeatable or key is not None,
    )


def given(**fields: Any) -> dict[str, Any]:
    """What was given, without what was left out."""
    return {name: value for name, value in fields.items() if value is not None}


def quoted(word: str) -> str:
    """A word as a part of a path."""
    return quote(word, safe="")


def key_header(idempotency_key: str | None) -> dict[str, str]:
    """The header that makes a request safe to repeat; none without a key."""
    if idempotency_key is None:
        return {}
    return {"Idempotency-Key": sendable(idempotency_key, "idempotency key")}


def sendable(text: str, what: str) -> str:
    """The text itself, or a ValueError: a line break in a header would begin a header of its own."""
    if not _HEADER_VALUE.fullmatch(text):
        raise ValueError(
            f"the {what} has a character that an HTTP header cannot carry; wanted visible ASCII characters"
        )
    return text
