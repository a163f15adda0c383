"""A tool call as a request to the endpoint of its tool, and the response to that."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from urllib.parse import urlencode
from uuid import uuid4

import msgspec

from pyoco_server.api.endpoints.endpoint import Endpoint
from pyoco_server.api.endpoints.system_endpoints import GET_KEY
from pyoco_server.api.invalid_fields import invalid_fields
from pyoco_server.config.path_segments import path_segment
from pyoco_server.errors import FieldProblem, InvalidRequest

KEY_ARGUMENT: Final = "idempotency_key"
_KEY_HEADER: Final = "Idempotency-Key"
_KEY: Final = re.compile("[\x21-\x7e]{1,255}")
_IN_PATH: Final = re.compile(r"\{(\w+)(:path)?\}")

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpCall:
    endpoint: Endpoint
    path: str
    query: Mapping[str, str | list[str]] = field(default_factory=dict)
    # None: it has none.
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def target(self) -> str:
        """The path and the query."""
        return f"{self.path}?{urlencode(self.query, doseq=True)}" if self.query else self.path


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpReply:
    status: int
    # Their names are in lower case.
    headers: Mapping[str, str]
    body: bytes

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


class GatewayLink(Protocol):
    """The way to a gateway, with the key of the caller."""

    base_url: str

    async def send(self, call: HttpCall) -> HttpReply:
        """PyocoError: the gateway does not respond."""


# What the key of the caller may do.
KEY_CALL: Final = HttpCall(endpoint=GET_KEY, path=GET_KEY.path)


def http_call(
    endpoint: Endpoint,
    record: type[msgspec.Struct],
    arguments: Json,
    *,
    complete: Callable[[Json], Json] = dict,
    headers: Mapping[str, str] | None = None,
) -> HttpCall:
    """InvalidRequest names the argument that does not fit, its value, and what was expected."""
    values = complete(_checked(record, arguments, drops_null=endpoint.method == "GET"))
    sent = dict(headers or {})
    if endpoint.creates:
        # Without a key of the agent the call has its own: the client may repeat it after a failure.
        sent[_KEY_HEADER] = _idempotency_key(values.pop(KEY_ARGUMENT, None))
    in_path = {name: values.pop(name) for name, _ in _IN_PATH.findall(endpoint.path)}
    path = _IN_PATH.sub(lambda found: path_segment(found[1], in_path[found[1]]), endpoint.path)
    has_body = endpoint.body is not None
    of_query = set(values) if not has_body else set(values) & set(_fields(endpoint.query))
    query = {name: _query_value(values.pop(name)) for name in list(values) if name in of_query}
    return HttpCall(
        endpoint=endpoint, path=path, query=query, body=_encoded(values) if has_body else None, headers=sent
    )


def _fields(record: type[msgspec.Struct] | None) -> tuple[str, ...]:
    return () if record is None else record.__struct_fields__


def _checked(record: type[msgspec.Struct], arguments: Json, *, drops_null: bool) -> Json:
    if drops_null:
        # A query has no null; some models send it for what they leave out.
        arguments = {name: value for name, value in arguments.items() if value is not None}
    try:
        found = msgspec.convert(arguments, record)
    except msgspec.ValidationError as error:
        raise invalid_fields(error, arguments, record) from None
    values: Json = msgspec.to_builtins(found)
    return values


def _idempotency_key(key: str | None) -> str:
    if key is None:
        return str(uuid4())
    if _KEY.fullmatch(key) is None:
        message = "expected 1 to 255 visible ASCII characters, such as a UUID"
        raise InvalidRequest(problems=[FieldProblem(KEY_ARGUMENT, message, value=ascii(key[:100]))])
    return key


def _query_value(value: Any) -> str | list[str]:
    if isinstance(value, list):
        return [str(each) for each in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def _encoded(values: Json) -> bytes:
    try:
        return json.dumps(values, allow_nan=False).encode()
    except ValueError:
        message = "NaN and infinite numbers are not JSON; send null or a text"
        raise InvalidRequest(problems=[FieldProblem("", message)]) from None
    except RecursionError:
        raise InvalidRequest(problems=[FieldProblem("", "the arguments are nested too deeply")]) from None
