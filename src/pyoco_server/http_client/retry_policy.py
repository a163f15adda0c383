"""When a client repeats a request or reconnects a stream, and how long it pauses before."""

from __future__ import annotations

import random
import time
from typing import Any, Final

import httpx

from pyoco_server.http_client.call_types import Stream
from pyoco_server.http_client.client_errors import Failure, PyocoHttpError, is_transient, refuses_events
from pyoco_server.http_client.event_stream import MEDIA_TYPE, SILENCE_LIMIT_SEC, ServerSentEvent

_FIRST_PAUSE_SEC: Final = 0.1
# While NATS elects another leader: with one of three servers gone, some streams have none for up to 9 s.
_OUTAGE_SEC: Final = 12.0
_LONGEST_OUTAGE_PAUSE_SEC: Final = 2.0
_NATS_UNAVAILABLE: Final = "ERR-PYOCO-0003"
# With a longer Retry-After the error is raised instead.
_LONGEST_RETRY_AFTER_SEC: Final = 30.0

_FIRST_POLL_SEC: Final = 0.05
_SLOWEST_POLL_SEC: Final = 1.0

_SHORTEST_SILENCE_SEC: Final = 0.01
# The limits of `timeout_sec` of a stream, in whole seconds.
_SHORTEST_STREAM_SEC: Final = 1
_LONGEST_STREAM_SEC: Final = 600


class Retries:
    """The retries of one request, with exponential backoff and jitter."""

    def __init__(self, retries: int, *, patience_sec: float = 0.0) -> None:
        """Beside the `retries`, an outage of NATS may take `patience_sec`, within limits."""
        self._left = retries
        self._pause = _FIRST_PAUSE_SEC
        self._outage_ends = time.monotonic() + (min(patience_sec, _OUTAGE_SEC) if retries else 0.0)

    def failed(self, failure: Failure) -> float:
        """The pause before the next attempt; raises the failure when there is none."""
        least_sec = _least_pause(failure)
        if least_sec is None or least_sec > _LONGEST_RETRY_AFTER_SEC:
            raise failure
        # Jitter: clients that failed together must not retry together.
        pause = max(least_sec, self._pause) * random.uniform(1.0, 1.25)  # noqa: S311
        if self._left == 0:
            pause = min(pause, _LONGEST_OUTAGE_PAUSE_SEC)
            if not _is_outage(failure) or time.monotonic() + pause > self._outage_ends:
                raise failure
        else:
            self._left -= 1
        self._pause *= 2
        return pause


def _is_outage(failure: Failure) -> bool:
    return isinstance(failure, PyocoHttpError) and failure.err_id == _NATS_UNAVAILABLE


def _least_pause(failure: Failure) -> float | None:
    """The gateway's Retry-After, or 0; None when a retry does not help."""
    if not is_transient(failure):
        return None
    if isinstance(failure, PyocoHttpError):
        seconds = failure.response.headers.get("retry-after", "")
        return float(seconds) if seconds.isdecimal() else 0.0
    # Not after a time-out, which has taken long enough.
    return 0.0 if isinstance(failure.__cause__, httpx.NetworkError | httpx.RemoteProtocolError) else None


class Polling:
    """The pauses of polling: short after a change, then longer."""

    def __init__(self, patience_sec: float) -> None:
        self._patience_sec = patience_sec
        self._succeeded_at = time.monotonic()
        self._pause = _FIRST_POLL_SEC

    def succeeded(self) -> None:
        self._succeeded_at = time.monotonic()

    def failed(self, failure: Failure) -> None:
        """Raise the failure, unless it is transient and the gateway has not been away for too long."""
        if not is_transient(failure) or time.monotonic() - self._succeeded_at > self._patience_sec:
            raise failure

    def changed(self) -> None:
        self._pause = _FIRST_POLL_SEC

    def pause(self, deadline: float | None = None) -> float:
        """The pause before the next request; TimeoutError when the deadline comes first."""
        pause, self._pause = self._pause, min(self._pause * 1.5, _SLOWEST_POLL_SEC)
        if deadline is not None and time.monotonic() + pause > deadline:
            raise TimeoutError
        return pause


class StreamPosition:
    """The position in a stream, over all of its connections."""

    def __init__(self, stream: Stream[Any], patience_sec: float) -> None:
        self._stream = stream
        self._last_id = stream.last_id
        self._polling = Polling(patience_sec)

    def request(self, connect_sec: float | None) -> dict[str, Any]:
        """The request for httpx, from the last event on."""
        headers = {"Accept": MEDIA_TYPE}
        if self._last_id is not None:
            headers["Last-Event-ID"] = self._last_id
        silence_sec = SILENCE_LIMIT_SEC
        query = dict(self._stream.query)
        if self._stream.deadline is not None:
            left_sec = max(self._stream.deadline - time.monotonic(), _SHORTEST_SILENCE_SEC)
            silence_sec = min(silence_sec, left_sec)
            # The gateway ends the stream then; its keepalives would hold the connection past the deadline.
            query["timeout_sec"] = min(max(int(left_sec), _SHORTEST_STREAM_SEC), _LONGEST_STREAM_SEC)
        return {
            "method": "GET",
            "url": self._stream.path,
            "params": query,
            "headers": headers,
            "timeout": httpx.Timeout(silence_sec, connect=connect_sec),
        }

    def received(self, event: ServerSentEvent) -> None:
        self._polling.changed()
        self._last_id = event.id or self._last_id

    def disconnected(self) -> float:
        """The pause before reconnecting; TimeoutError when the deadline comes first."""
        self._polling.succeeded()
        return self._polling.pause(self._stream.deadline)

    def failed(self, failure: Failure) -> float:
        """The same after a failure; raises it when it is not transient."""
        if self._stream.replaceable and refuses_events(failure):
            raise failure
        self._polling.failed(failure)
        return self._polling.pause(self._stream.deadline)
