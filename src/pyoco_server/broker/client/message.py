"""A message from NATS, whose headers are read only when somebody asks for them."""

from collections.abc import Callable

_VERSION = "NATS/1.0"
_NO_STATUS = b"NATS/1.0\r\n"


class Message:
    """What was published on a subject, or the server's own word about a request (`status`)."""

    __slots__ = ("_headers", "data", "head", "reply", "subject")

    def __init__(self, subject: str, reply: str, head: bytes, data: bytes) -> None:
        self.subject = subject
        self.reply = reply
        self.data = data
        # The headers as they came.
        self.head = head
        self._headers: dict[str, str] | None = None

    @property
    def status(self) -> str | None:
        """The server's answer in its own right, like "503": nobody serves the subject."""
        # Hardly any message has one, and then nothing but its headers' first line need be looked at.
        if not self.head or self.head.startswith(_NO_STATUS):
            return None
        return self.headers.get("Status")

    @property
    def headers(self) -> dict[str, str]:
        """Every header; a status is among them as `Status` and `Description`."""
        if self._headers is None:
            self._headers = _parsed(self.head)
        return self._headers


MessageSink = Callable[[Message], None]


def _parsed(head: bytes) -> dict[str, str]:
    """Read `NATS/1.0[ status[ description]]`, then one `Name: value` a line."""
    first, *lines = head.decode("utf-8", "replace").split("\r\n")
    found: dict[str, str] = {}
    status, _, description = first.removeprefix(_VERSION).strip().partition(" ")
    if status:
        found["Status"] = status
        found["Description"] = description
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            found[name.strip()] = value.strip()
    return found
