"""What all watches have in common: where they begin, how long they last, how long they may be silent."""

import asyncio

from pyoco_server.errors import FieldProblem, InvalidListQuery, shortened
from pyoco_server.http_api.streams import sse
from pyoco_server.runs.watch.recent_changes import BucketPosition


def position_in_header(text: str, expected: str) -> BucketPosition:
    """What `Last-Event-ID` says; a browser that reconnects sends it by itself."""
    position = BucketPosition.parse(text)
    if position is None:
        raise InvalidListQuery(problems=[FieldProblem("Last-Event-ID", expected, shortened(text))])
    return position


class WatchTime:
    """The time that one watch has."""

    def __init__(self, timeout_sec: float | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._ends_at = None if timeout_sec is None else self._loop.time() + timeout_sec

    @property
    def over(self) -> bool:
        return self._ends_at is not None and self._loop.time() >= self._ends_at

    @property
    def silence(self) -> float:
        """For how long it may say nothing."""
        if self._ends_at is None:
            return sse.KEEPALIVE_SEC
        return min(sse.KEEPALIVE_SEC, max(0.0, self._ends_at - self._loop.time()))
