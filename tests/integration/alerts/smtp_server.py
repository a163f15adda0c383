"""A mail server for tests: it keeps what it gets, and refuses users with a wrong password."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default

USER, PASSWORD = "pyoco", "smtp-pass-word"


@dataclass
class MailServer:
    port: int = 0
    messages: list[EmailMessage] = field(default_factory=list)
    recipients: list[str] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def answer(line: str) -> None:
            writer.write(f"{line}\r\n".encode())

        answer("220 test")
        while line := (await reader.readline()).decode().strip():
            verb, _, rest = line.partition(" ")
            match verb.upper():
                case "EHLO":
                    answer("250-test")
                    answer("250 AUTH PLAIN")
                case "AUTH":
                    given = base64.b64decode(rest.partition(" ")[2]).decode().split("\0")[1:]
                    answer("235 ok" if given == [USER, PASSWORD] else "535 wrong password")
                case "RCPT":
                    self.recipients.append(rest.partition("<")[2].partition(">")[0])
                    answer("250 ok")
                case "DATA":
                    answer("354 go on")
                    raw = await reader.readuntil(b"\r\n.\r\n")
                    message = message_from_bytes(raw[:-3], policy=default)
                    assert isinstance(message, EmailMessage)
                    self.messages.append(message)
                    answer("250 ok")
                case "QUIT":
                    answer("221 bye")
                    break
                case _:
                    answer("250 ok")
        writer.close()


@asynccontextmanager
async def mail_server() -> AsyncIterator[MailServer]:
    found = MailServer()
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.port = server.sockets[0].getsockname()[1]
    async with server:
        yield found
