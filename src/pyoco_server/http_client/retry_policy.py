"""How often a client asks again, and how long it waits before: for one answer, and along a stream."""

from __future__ import annotations

import random
import time
from typing import Any, Final

import httpx

from pyoco_server.http_client.call_types import Stream
from pyoco_server.http_client.client_errors import Failure, PyocoHttpError, passes, refuses_events
from pyoco_server.http_client.event_stream import MEDIA_TYPE, SILENCE_LIMIT_SEC, ServerSentEvent

_FIRST_PAUSE_SEC: Final = 0.1
# A gateway that wants to be left alone for longer is reported instead.
_LONGEST_RETRY_AFTER_SEC: Final = 30.0

_FIRST_POLL_SEC: Final = 0.05
_SLOWEST_POLL_SEC: Final = 1.0

_SHORTEST_SILENCE_SEC: Final = 0.01
# What a gateway takes as the limit of a stream, in whole seconds.
_SHORTEST_STREAM_SEC: Final = 1
_LONGEST_STREAM_SEC: Final = 600


class Tries:
    """Counts how often one question was asked."""

    def __init__(self, retries: int) -> None:
        self._left = retries
        self._pause = _FIRST_PAUSE_SEC

    def failed(self, failure: Failure) -> float:
        """How long to wait before asking again; raises the failure when that would be of no use."""
        wanted_sec = _wanted_pause(failure)
        if self._left == 0 or wanted_sec is None or wanted_sec > _LONGEST_RETRY_AFTER_SEC:
            raise failure
        self._left -= 1
        # Clients that failed together must not come back together.
        pause = max(wanted_sec, self._pause) * random.uniform(1.0, 1.25)  # noqa: S311
        self._pause *= 2
        return pause


def _wanted_pause(failure: Failure) -> float | None:
    """What the gateway asks for; 0 when it does not say, None when asking again does not help."""
    if not passes(failure):
        return None
    if isinstance(failure, PyocoHttpError):
        seconds = failure.response.headers.get("retry-after", "")
        return float(seconds) if seconds.isdecimal() else 0.0
    # A time-out has been waited for long enough.
    return 0.0 if isinstance(failure.__cause__, httpx.NetworkError | httpx.RemoteProtocolError) else None


class Polling:
    """The pauses of somebody who asks again and again: short while things happen, longer when they do not."""

    def __init__(self, patience_sec: float) -> None:
        self._patience_sec = patience_sec
        self._answered = time.monotonic()
        self._pause = _FIRST_POLL_SEC

    def answered(self) -> None:
        self._answered = time.monotonic()

    def failed(self, failure: Failure) -> None:
        """Raise the failure, unless it passes and the gateway has not been away for too long."""
        if not passes(failure) or time.monotonic() - self._answered > self._patience_sec:
            raise failure

    def something_new(self) -> None:
        self._pause = _FIRST_POLL_SEC

    def pause(self, deadline: float | None = None) -> float:
        """How long to wait before the next question; TimeoutError when the deadline comes first."""
        pause, self._pause = self._pause, min(self._pause * 1.5, _SLOWEST_POLL_SEC)
        if deadline is not None and time.monotonic() + pause > deadline:
            raise TimeoutError
        return pause


class Following:
    """Where a stream has come to, over all the answers that carried it."""

    def __init__(self, stream: Stream[Any], patience_sec: float) -> None:
        self._stream = stream
        self._last_id = stream.last_id
        self._polling = Polling(patience_sec)

    def request(self, connect_sec: float | None) -> dict[str, Any]:
        """The question for httpx, from where it was cut off."""
        headers = {"Accept": MEDIA_TYPE}
        if self._last_id is not None:
            headers["Last-Event-ID"] = self._last_id
        silence_sec = SILENCE_LIMIT_SEC
        query = dict(self._stream.query)
        if self._stream.deadline is not None:
            left_sec = max(self._stream.deadline - time.monotonic(), _SHORTEST_SILENCE_SEC)
            silence_sec = min(silence_sec, left_sec)
            # The gateway ends the stream then: its signs of life would keep us waiting behind the deadline.
            query["timeout_sec"] = min(max(int(left_sec), _SHORTEST_STREAM_SEC), _LONGEST_STREAM_SEC)
        return {
            "method": "GET",
            "url": self._stream.path,
            "params": query,
            "headers": headers,
            "timeout": httpx.Timeout(silence_sec, connect=connect_sec),
        }

    def heard(self, event: ServerSentEvent) -> None:
        self._polling.something_new()
        self._last_id = event.id or self._last_id

    def cut_off(self) -> float:
        """How long to wait before asking again; TimeoutError when the deadline comes first."""
        self._polling.answered()
        return self._polling.pause(self._stream.deadline)

    def failed(self, failure: Failure) -> float:
        """The same after a failure; raises it when it will not pass."""
        if self._stream.replaceable and refuses_events(failure):
            raise failure
        self._polling.failed(failure)
        return self._polling.pause(self._stream.deadline)
