"""Who waits for the feed to have read what was stored before they asked, and nothing beyond."""

import asyncio

from pyoco_server.errors import PyocoError


class FeedQuestions:
    """Each waits first to learn how much that is, then to be told that it was read."""

    def __init__(self) -> None:
        self.new: list[asyncio.Future[None]] = []
        # With the revision that each waits for.
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def __bool__(self) -> bool:
        return bool(self.new or self._waiting)

    def ask(self) -> asyncio.Future[None]:
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Another list: who took the old one to set their goal does not mean this question.
        self.new = [*self.new, answer]
        return answer

    def set_goal(self, asked: list[asyncio.Future[None]], revision: int) -> None:
        """These wait for this revision: it was the last one after they had asked."""
        self._waiting += [(revision, answer) for answer in asked]
        self.new = self.new[len(asked) :]

    def restart(self) -> None:
        """The goals mean nothing any more."""
        self.new += [answer for _, answer in self._waiting]
        self._waiting = []

    def answer(self, *, upto: int) -> None:
        for revision, answer in self._waiting:
            # Who asked may have stopped waiting.
            if revision <= upto and not answer.done():
                answer.set_result(None)
        self._waiting = [(revision, answer) for revision, answer in self._waiting if not answer.done()]

    def fail(self, error: PyocoError) -> None:
        self.restart()
        for answer in self.new:
            if not answer.done():
                answer.set_exception(error)
        self.new = []
