"""Requests that wait for a reply; all have the same timeout."""

import asyncio
from collections import deque
from collections.abc import Callable

from pyoco_server.aio.deadlines import DeadlineQueue
from pyoco_server.broker.client.message import Message
from pyoco_server.errors import NatsUnavailable

# Its subject and its reply: a tuple, since each run makes several.
_Request = tuple[str, asyncio.Future[Message]]


class PendingRequests:
    """By token. `timeout_error(subject)` is the error for a request without a reply in time."""

    def __init__(self, timeout_sec: float, timeout_error: Callable[[str], Exception]) -> None:
        self._timeout_error = timeout_error
        self._requests: DeadlineQueue[str, _Request] = DeadlineQueue(timeout_sec, self._on_timeout)
        # Bound once: every request calls it.
        self.remove = self._requests.remove
        # Looked up once, since that takes a system call.
        self._loop: asyncio.AbstractEventLoop | None = None

    def add(self, token: str, subject: str) -> asyncio.Future[Message]:
        """The reply to come; the caller removes the request in any case."""
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        reply: asyncio.Future[Message] = loop.create_future()
        self._requests.add(token, (subject, reply))
        return reply

    def resolve(self, token: str, message: Message) -> bool:
        """Return whether there is such a request; a second reply is ignored."""
        request = self._requests.get(token)
        if request is None:
            return False
        reply = request[1]
        if not reply.done():
            reply.set_result(message)
        return True

    def fail(self, error: Callable[[], Exception], *, subject: str | None = None) -> None:
        """Fail all requests, or those on one subject, whatever case the server writes it in."""
        for requested, reply in self._requests.values():
            if (subject is None or requested.lower() == subject.lower()) and not reply.done():
                reply.set_exception(error())

    def close(self) -> None:
        self._requests.close()

    def _on_timeout(self, request: _Request) -> None:
        subject, reply = request
        if not reply.done():
            reply.set_exception(self._timeout_error(subject))


class ReplyStream:
    """The replies to a request with several of them, as far as they are not taken yet."""

    def __init__(self) -> None:
        self.arrived: deque[Message | NatsUnavailable] = deque()
        self._changed = asyncio.Event()

    def add(self, reply: Message | NatsUnavailable) -> None:
        self.arrived.append(reply)
        self._changed.set()

    async def wait(self) -> None:
        """Wait for another one."""
        self._changed.clear()
        await self._changed.wait()
