"""The two servers that get the same operations: a real nats-server, and the simulated one."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

from nats.aio.client import Client
from nats.aio.msg import Msg

from pyoco_server.broker.client.message import Message
from tests.simulation.jetstream import headers
from tests.simulation.jetstream.server import SimulatedServer

_ANSWER_SEC: Final = 5.0
_INBOX: Final = "_INBOX.conformance"
# When simulated time begins.
_BEGAN_NS: Final = 1_900_000_000_000_000_000


class Target(Protocol):
    async def replies(
        self,
        subject: str,
        payload: bytes,
        headers: Mapping[str, str] | None,
        is_last: Callable[[list[Message]], bool],
    ) -> list[Message]:
        """Publish, and collect the replies up to the last one."""
        ...

    async def begin(self, subject: str, payload: bytes) -> list[Message]:
        """Publish; the list is filled with the replies as they come."""
        ...

    async def listen(self, pattern: str) -> list[Message]:
        """Subscribe; the list is filled with the messages as they come."""
        ...

    async def wait_for(self, is_true: Callable[[], Awaitable[bool]]) -> None:
        """Return when it is true."""
        ...

    async def wait(self, seconds: float) -> None: ...

    def now(self) -> float:
        """In seconds since it was made."""
        ...


class RealTarget:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._began = time.monotonic()

    async def replies(
        self,
        subject: str,
        payload: bytes,
        headers: Mapping[str, str] | None,
        is_last: Callable[[list[Message]], bool],
    ) -> list[Message]:
        found: list[Message] = []
        over = asyncio.Event()

        async def receive(msg: Msg) -> None:
            found.append(Message.from_headers(msg.subject, msg.reply, msg.headers, msg.data))
            if is_last(found):
                over.set()

        inbox = self._client.new_inbox()
        subscription = await self._client.subscribe(inbox, cb=receive)
        await self._client.publish(subject, payload, reply=inbox, headers=dict(headers) if headers else None)
        async with asyncio.timeout(_ANSWER_SEC):
            await over.wait()
        await subscription.unsubscribe()
        return found

    async def begin(self, subject: str, payload: bytes) -> list[Message]:
        inbox = self._client.new_inbox()
        found = await self.listen(inbox)
        await self._client.publish(subject, payload, reply=inbox)
        return found

    async def listen(self, pattern: str) -> list[Message]:
        found: list[Message] = []

        async def receive(msg: Msg) -> None:
            found.append(Message.from_headers(msg.subject, msg.reply, msg.headers, msg.data))

        await self._client.subscribe(pattern, cb=receive)
        await self._client.flush()
        return found

    async def wait_for(self, is_true: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(_ANSWER_SEC):
            while not await is_true():
                pass

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def now(self) -> float:
        return time.monotonic() - self._began


class SimulatedTarget:
    """Without a network: everything is answered at once."""

    def __init__(self) -> None:
        self._now_ns = _BEGAN_NS
        self._timers: list[tuple[int, Callable[[], None]]] = []
        self.server = SimulatedServer(lambda: self._now_ns, self._call_at)
        self._received: list[Message] = []
        self._inboxes = 0
        # By subscription.
        self._heard: dict[int, list[Message]] = {}

    def deliver(self, subscription: int, message: Message) -> None:
        self._heard.get(subscription, self._received).append(message)

    async def begin(self, subject: str, payload: bytes) -> list[Message]:
        inbox = f"{_INBOX}.{self._inboxes + 1}"
        found = await self.listen(inbox)
        self.server.receive(self, subject, payload, b"", inbox)
        return found

    async def listen(self, pattern: str) -> list[Message]:
        self._inboxes += 1
        found = self._heard[self._inboxes] = []
        self.server.subscriptions.add(self, self._inboxes, pattern)
        return found

    async def replies(
        self,
        subject: str,
        payload: bytes,
        given: Mapping[str, str] | None,
        is_last: Callable[[list[Message]], bool],
    ) -> list[Message]:
        # Two messages are never stored in the same nanosecond.
        self._now_ns += 1_000
        self._inboxes += 1
        inbox = f"{_INBOX}.{self._inboxes}"
        self.server.subscriptions.add(self, self._inboxes, inbox)
        self.server.receive(self, subject, payload, headers.encoded(given), inbox)
        found: list[Message] = []
        while self._received and not (found and is_last(found)):
            found.append(self._received.pop(0))
        assert found, f"the simulated server does not answer on {subject}"
        assert is_last(found), f"the simulated server has not ended its answer on {subject}: {found}"
        self._received.clear()
        self.server.subscriptions.remove(self, self._inboxes)
        return found

    async def wait_for(self, is_true: Callable[[], Awaitable[bool]]) -> None:
        assert await is_true()

    def now(self) -> float:
        return (self._now_ns - _BEGAN_NS) / 1e9

    async def wait(self, seconds: float) -> None:
        until = self._now_ns + int(seconds * 1e9)
        while due := [timer for timer in self._timers if timer[0] <= until]:
            first = min(due, key=lambda timer: timer[0])
            self._timers.remove(first)
            self._now_ns = max(self._now_ns, first[0])
            first[1]()
        self._now_ns = until

    def _call_at(self, time_ns: int, action: Callable[[], None]) -> None:
        self._timers.append((time_ns, action))
