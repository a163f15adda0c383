"""Reading a JSON body up to its limit, and errors of its fields."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from pyoco_server.api.invalid_fields import invalid_fields
from pyoco_server.errors import FieldProblem, InvalidRequest
from pyoco_server.http_api.requests.unusable_values import unusable_value
from pyoco_server.records.nesting import MAX_INPUT_NESTING, is_nested_deeper

T = TypeVar("T", bound=msgspec.Struct)

_SMALL_BODY_BYTES = 16 * 1024

# How much of an oversized body is read and discarded, so that its sender can read the response.
_DISCARD_BYTES = 64 * 1024 * 1024
_DISCARD_SEC = 5.0


async def limited_body(
    request: Request,
    max_bytes: int,
    *,
    field: str,
    cure: str,
    error: type[InvalidRequest] = InvalidRequest,
    reserve: Callable[[int], None] = lambda _: None,
) -> bytes:
    """The whole body; an error of this class as soon as it is longer than `max_bytes`.

    `reserve` is called with the size of each part before it is kept, and may raise.
    """
    # Faster than `request.stream()`: nearly every body arrives in one message.
    chunks: list[bytes] = []
    size = 0
    more_body = True
    while more_body:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk: bytes = message.get("body", b"")
        more_body = message.get("more_body", False)
        size += len(chunk)
        if size > max_bytes:
            problem = FieldProblem(field, f"the body is larger than {max_bytes} bytes; {cure}")
            too_large = error(problems=[problem])
            if more_body and not await discard(request.stream()):
                too_large.headers["Connection"] = "close"
            raise too_large
        reserve(len(chunk))
        chunks.append(chunk)
    return b"".join(chunks)


async def optional_record(
    request: Request, kind: type[T], *, field: str, cure: str, max_bytes: int = _SMALL_BODY_BYTES
) -> T:
    """The record of a JSON body, usually a small one; an empty body is a record with its defaults."""
    body = await limited_body(request, max_bytes, field=field, cure=cure)
    return json_record(body, kind) if body else kind()


def json_record(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise invalid_body(error, body, kind) from None


def form_record(fields: dict[str, str], kind: type[T]) -> T:
    """The record of the text fields of a form."""
    try:
        return msgspec.convert(fields, kind, strict=False)
    except msgspec.ValidationError as error:
        raise invalid_fields(error, fields, kind) from None


def check_depth(field: str, value: Any) -> None:
    if is_nested_deeper(value, MAX_INPUT_NESTING):
        raise InvalidRequest(problems=[FieldProblem(field, f"nested more than {MAX_INPUT_NESTING} deep")])


async def discard(stream: AsyncIterator[bytes]) -> bool:
    """Read the rest of a body, within limits: a client that is still sending does not read the response.

    Returns whether the end was reached; if not, the connection has to be closed.
    """
    left = _DISCARD_BYTES
    try:
        async with asyncio.timeout(_DISCARD_SEC):
            async for chunk in stream:
                left -= len(chunk)
                if left < 0:
                    return False
    except TimeoutError:
        return False
    return True


def invalid_body(error: Exception, body: bytes, kind: type[msgspec.Struct]) -> InvalidRequest:
    """The error of a JSON body that could not be decoded into its record."""
    try:
        document = json_value(body)
    except InvalidRequest as malformed:
        return malformed
    return invalid_fields(error, document, kind)


def json_value(body: bytes) -> Any:
    """The value of any JSON body; InvalidRequest if it is not JSON."""
    try:
        return msgspec.json.decode(body)
    except RecursionError:
        raise InvalidRequest(problems=[FieldProblem("", "the JSON is nested too deeply")]) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as malformed:
        not_json = FieldProblem("", f"the body is not JSON: {malformed}")
        raise InvalidRequest(problems=[unusable_value(body) or not_json]) from None
