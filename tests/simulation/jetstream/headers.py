"""Headers of messages, in the form of the NATS protocol."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache

FIRST_LINE = b"NATS/1.0\r\n"


def encoded(headers: Mapping[str, str] | None) -> bytes:
    if not headers:
        return b""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return FIRST_LINE + lines.encode() + b"\r\n"


def status(code: int, description: str, headers: Mapping[str, str] | None = None) -> bytes:
    """Of a reply by the server itself."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
    first = f"NATS/1.0 {code} {description}".rstrip()
    return f"{first}\r\n{lines}\r\n".encode()


def with_more(head: bytes, headers: Mapping[str, object]) -> bytes:
    """The headers of a message, followed by some of the server."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()
    return (head.removesuffix(b"\r\n") or FIRST_LINE) + lines + b"\r\n"


def decoded(head: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in head.decode().split("\r\n")[1:]:
        name, colon, value = line.partition(":")
        if colon:
            found[name.strip()] = value.strip()
    return found


def rfc3339(time_ns: int) -> str:
    """As Go writes it: without trailing zeros of the fraction."""
    seconds, fraction = divmod(time_ns, 1_000_000_000)
    text = _to_the_second(seconds)
    digits = f"{fraction:09d}".rstrip("0")
    return f"{text}.{digits}Z" if digits else f"{text}Z"


@lru_cache(maxsize=4096)
def _to_the_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def unix_ns(text: str) -> int:
    whole, _, fraction = text.removesuffix("Z").partition(".")
    seconds = int(datetime.fromisoformat(f"{whole}+00:00").timestamp())
    return seconds * 1_000_000_000 + int((fraction or "0").ljust(9, "0")[:9])
