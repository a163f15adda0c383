"""Publishes bytes that no client library would: any subject, any headers."""

import asyncio
import json
from urllib.parse import urlsplit


async def publish_raw(url: str, subject: bytes, data: bytes, head: bytes = b"") -> None:
    """Returns when the server has processed it."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        await reader.readline()
        options: dict[str, object] = {"verbose": False, "pedantic": False, "headers": True}
        if address.username:
            options |= {"user": address.username, "pass": address.password or ""}
        writer.write(b"CONNECT " + json.dumps(options).encode() + b"\r\n")
        sizes = b"%d %d" % (len(head), len(head) + len(data)) if head else b"%d" % len(data)
        verb = b"HPUB" if head else b"PUB"
        writer.write(verb + b" " + subject + b" " + sizes + b"\r\n" + head + data + b"\r\nPING\r\n")
        assert await reader.readline() == b"PONG\r\n"
    finally:
        writer.close()
