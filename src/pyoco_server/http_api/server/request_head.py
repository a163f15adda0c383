"""Which heads of requests are refused although the parser accepts them, and the responses to those."""

from itertools import chain
from typing import Final
from urllib.parse import urlsplit

MAX_HEAD_BYTES: Final = 64 * 1024
MAX_HEADERS: Final = 256

# Of a header ": " and the end of its line; of the request line two spaces, the version and the end.
_HEADER_SIGNS: Final = 4
_LINE_SIGNS: Final = 12
_VERSIONS: Final = frozenset({"1.0", "1.1"})

Headers = list[tuple[bytes, bytes]]


def final_response(status: str, text: str) -> bytes:
    """A response after which the connection is closed."""
    body = text.encode()
    head = (
        f"HTTP/1.1 {status}\r\nconnection: close\r\n"
        f"content-type: text/plain; charset=utf-8\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


HEAD_TOO_LARGE: Final = final_response(
    "431 Request Header Fields Too Large",
    f"The head of the request has more than {MAX_HEAD_BYTES} bytes or {MAX_HEADERS} headers.",
)
# Not 501 and 505: a 5xx is a fault of the gateway.
_OTHER_VERSION: Final = final_response("400 Bad Request", "This gateway serves HTTP/1.1 and HTTP/1.0.")
_OTHER_CODING: Final = final_response(
    "400 Bad Request", "The body has a Transfer-Encoding other than chunked."
)
_NOT_ONE_HOST: Final = final_response(
    "400 Bad Request", "Expected exactly one Host header; only a request of HTTP/1.0 may have none."
)
_OTHER_HOST: Final = final_response(
    "400 Bad Request", "The target of the request names another host than its header Host."
)


def refusal(target: bytes, version: str, headers: Headers, *, received: int) -> bytes | None:
    """The response to a head that is not served; None when it is.

    `received` is an upper bound of its size, so that most heads need not be measured.

    Two hosts, or codings that are not decoded, are read differently by a proxy in front of the gateway.
    """
    is_large = received > MAX_HEAD_BYTES and _size(target, headers) > MAX_HEAD_BYTES
    if is_large or len(headers) > MAX_HEADERS:
        return HEAD_TOO_LARGE
    names = [name for name, _ in headers]
    if b"transfer-encoding" in names and not _is_chunked(headers):
        return _OTHER_CODING
    if version not in _VERSIONS:
        return _OTHER_VERSION
    hosts = names.count(b"host")
    if hosts != 1 and (hosts or version == "1.1"):
        return _NOT_ONE_HOST
    # Most targets are paths.
    return None if target.startswith((b"/", b"*")) else _refused_host(target, headers)


def _size(target: bytes, headers: Headers) -> int:
    return sum(
        map(len, chain.from_iterable(headers)), len(target) + _LINE_SIGNS + _HEADER_SIGNS * len(headers)
    )


def _is_chunked(headers: Headers) -> bool:
    return all(value.lower().strip() == b"chunked" for name, value in headers if name == b"transfer-encoding")


def _refused_host(target: bytes, headers: Headers) -> bytes | None:
    hosts = {value.strip().lower() for name, value in headers if name == b"host"}
    return None if not hosts or hosts == {_authority(target)} else _OTHER_HOST


def _authority(target: bytes) -> bytes:
    """Of a target in absolute form, as a client of a proxy sends it."""
    try:
        return urlsplit(target.lower()).netloc
    except ValueError:
        return b""
