"""Removes addresses of servers from texts. Callers of a gateway need not know where its NATS server is."""

import re
from typing import Final

# `nats://a:4222,nats://b:4222: ` before the reason of an error.
_PREFIX: Final = re.compile(r"^[a-z]+://\S+: ")
_ADDRESS: Final = re.compile(
    r"[a-z]+://[^\s'\"]*[^\s'\":,.;)]"
    r"|\('[^']*', \d+(?:, \d+, \d+)?\)"
    r"|\[[0-9a-fA-F:.]+\](?::\d+)?"
    r"|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"
    r"|\b[A-Za-z][A-Za-z0-9-]*(?:\.[A-Za-z0-9-]+)*:\d{2,5}\b"
)


def without_addresses(text: str) -> str:
    return _ADDRESS.sub("the server", _PREFIX.sub("", text))
