"""A message from NATS; its headers are parsed when they are read first."""

from collections.abc import Callable, Mapping
from typing import Self

# For subjects, which anybody can make of any bytes: one that is not UTF-8 matches no known key.
ANY_BYTES = "backslashreplace"

_VERSION = "NATS/1.0"
_NO_STATUS = b"NATS/1.0\r\n"
_SHORT_REPLY_TOKENS = 9


class Message:
    """A message on a subject, or the server's own reply to a request (`status`)."""

    __slots__ = ("_headers", "data", "head", "reply", "subject")

    def __init__(self, subject: str, reply: str, head: bytes, data: bytes) -> None:
        self.subject = subject
        self.reply = reply
        self.data = data
        # The headers as they came.
        self.head = head
        self._headers: dict[str, str] | None = None

    @classmethod
    def from_headers(cls, subject: str, reply: str, headers: Mapping[str, str] | None, data: bytes) -> Self:
        """From headers that nats-py has parsed, a status among them as `Status` and `Description`."""
        if not headers:
            return cls(subject, reply, b"", data)
        status = f"{headers.get('Status', '')} {headers.get('Description', '')}".strip()
        lines = [
            f"{name}: {value}\r\n" for name, value in headers.items() if name not in ("Status", "Description")
        ]
        first = f"{_VERSION} {status}" if "Status" in headers else _VERSION
        return cls(subject, reply, f"{first}\r\n{''.join(lines)}\r\n".encode(), data)

    @property
    def status(self) -> str | None:
        """The status of a reply by the server itself: "503" when there are no responders."""
        # Hardly any message has one; usually its first line alone shows that.
        if not self.head or self.head.startswith(_NO_STATUS):
            return None
        return self.headers.get("Status")

    @property
    def headers(self) -> dict[str, str]:
        """Every header; a status is among them as `Status` and `Description`."""
        if self._headers is None:
            self._headers = _parse(self.head)
        return self._headers


def delivery_tokens(reply: str) -> list[str]:
    """Of the reply subject of a delivery: its number, stream sequence, consumer sequence, time, and more."""
    tokens = reply.split(".")
    # $JS.ACK[.<domain>.<account>].<stream>.<consumer> comes before them, one random token may come after.
    return tokens[4:] if len(tokens) == _SHORT_REPLY_TOKENS else tokens[6:]


MessageSink = Callable[[Message], None]


def _parse(head: bytes) -> dict[str, str]:
    """Parse `NATS/1.0[ status[ description]]`, then one `Name: value` a line."""
    first, *lines = head.decode("utf-8", "replace").split("\r\n")
    headers: dict[str, str] = {}
    status, _, description = first.removeprefix(_VERSION).strip().partition(" ")
    if status:
        headers["Status"] = status
        headers["Description"] = description
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip()] = value.strip()
    return headers
