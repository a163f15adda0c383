"""Requests that wait for an answer: all have the same time for it, and share one timer."""

import asyncio
from collections import deque
from collections.abc import Callable

from pyoco_server.aio.deadline_timer import DeadlineTimer
from pyoco_server.broker.client.message import Message
from pyoco_server.errors import NatsUnavailable

# Its subject, its deadline and its answer: as a tuple, since each run makes several.
_Request = tuple[str, float, asyncio.Future[Message]]


class PendingRequests:
    """By token. `late(subject)` is the error for a request whose time is up."""

    def __init__(self, timeout_sec: float, late: Callable[[str], Exception]) -> None:
        self._timeout_sec = timeout_sec
        self._late = late
        # The order of their making is that of their deadlines.
        self._requests: dict[str, _Request] = {}
        self._timer = DeadlineTimer(self._expire)
        # Read once, since that takes a system call.
        self._loop: asyncio.AbstractEventLoop | None = None

    def add(self, token: str, subject: str) -> asyncio.Future[Message]:
        """The answer to come; who adds a request removes it, whatever became of it."""
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        answer: asyncio.Future[Message] = loop.create_future()
        self._requests[token] = (subject, self._timer.add(self._timeout_sec), answer)
        return answer

    def remove(self, token: str) -> None:
        del self._requests[token]

    def answer(self, token: str, message: Message) -> bool:
        """Whether there is such a request; one that has been answered already stays as it is."""
        request = self._requests.get(token)
        if request is None:
            return False
        answer = request[2]
        if not answer.done():
            answer.set_result(message)
        return True

    def refuse(self, subject: str, why: Callable[[], Exception]) -> None:
        """Those on this subject, in whatever case it is written, will not be answered."""
        for asked, _, answer in self._requests.values():
            if asked.lower() == subject.lower() and not answer.done():
                answer.set_exception(why())

    def fail(self, why: Callable[[], Exception]) -> None:
        """None of them will be answered any more."""
        for _, _, answer in self._requests.values():
            if not answer.done():
                answer.set_exception(why())

    def close(self) -> None:
        self._timer.close()

    def _expire(self, now: float) -> float | None:
        """Fail requests past their deadline."""
        for subject, deadline, answer in self._requests.values():
            if deadline > now:
                return deadline
            if not answer.done():
                answer.set_exception(self._late(subject))
        return None


class Answers:
    """What has come for a request with several answers, and was not taken yet."""

    def __init__(self) -> None:
        self.come: deque[Message | NatsUnavailable] = deque()
        self._stirred = asyncio.Event()

    def add(self, answer: Message | NatsUnavailable) -> None:
        self.come.append(answer)
        self._stirred.set()

    async def wait(self) -> None:
        """Until there is another one."""
        self._stirred.clear()
        await self._stirred.wait()
