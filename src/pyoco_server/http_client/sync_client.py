"""The client for programs without an event loop."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack
from uuid import uuid4

import httpx

from pyoco_server.http_client import client_endpoints as api
from pyoco_server.http_client.call_types import Pages, Request, Stream, WritableFile
from pyoco_server.http_client.client_errors import (
    Failure,
    GatewayUnreachable,
    PyocoHttpError,
    RunFailed,
    refuses_events,
)
from pyoco_server.http_client.client_methods import ClientMethods
from pyoco_server.http_client.event_stream import ServerSentEvent, events_in
from pyoco_server.http_client.filter_params import LogFilter
from pyoco_server.http_client.old_methods import OldMethods
from pyoco_server.http_client.response_types import LogLine, Run
from pyoco_server.http_client.retry_policy import Polling, StreamPosition
from pyoco_server.http_client.runs import run_calls as runs
from pyoco_server.http_client.runs.run_calls import RunFollowing
from pyoco_server.http_client.transport import ClientBase

T = TypeVar("T")


class PyocoHttpClient(ClientBase[httpx.Client], ClientMethods, OldMethods, is_async=False):
    """A connection to one gateway. Close it when done, or use it in a `with` statement."""

    _http_class = httpx.Client

    def close(self) -> None:
        """Close the connections to the gateway."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _send(self, request: Request[T]) -> T:
        request, retries = self._prepared(request)
        while True:
            try:
                return self._content_of(self._http.request(**request.for_httpx()), request)
            except httpx.RequestError as error:
                failure: Failure = self._unreachable(error)
            except PyocoHttpError as error:
                failure = error
            time.sleep(retries.failed(failure))

    def _all(self, pages: Pages[T]) -> Iterator[T]:
        position = pages.start
        while True:
            page = self._send(pages.page(position))
            yield from page[pages.items]
            position = pages.next(page, position)
            if position is None:
                return

    def _follow(self, stream: Stream[T]) -> Generator[T, None, ServerSentEvent]:
        """The items of the events; returns the last event."""
        position = StreamPosition(stream, self._patience_sec)
        while True:
            try:
                for event in self._events(position):
                    position.received(event)
                    item = stream.read(event)
                    if item is not None:
                        yield item
                    if stream.ends(event, item):
                        return event
                pause = position.disconnected()
            except (GatewayUnreachable, PyocoHttpError) as failure:
                pause = position.failed(failure)
            time.sleep(pause)

    def _events(self, position: StreamPosition) -> Iterator[ServerSentEvent]:
        """The events of one connection, until it ends."""
        opened = False
        try:
            with self._http.stream(**position.request(self._connect_sec)) as response:
                if not response.is_success:
                    response.read()
                self._check_events(response)
                opened = True
                yield from events_in(response.iter_bytes())
        except httpx.RequestError as error:
            if not opened:
                raise self._unreachable(error) from error

    def download_wheel(self, name: str, target: WritableFile) -> int:
        """Write a wheel of the registry into an open file; returns how many bytes it has."""
        return self._download(api.DOWNLOAD_WHEEL.url(wheel_name=name), target)

    def download_artifact(self, run_id: str, name: str, target: WritableFile) -> int:
        """Write an artifact of a run into an open file; returns how many bytes it has."""
        return self._download(api.GET_ARTIFACT.url(run_id=run_id, name=name), target)

    def result(self, run_id: str, task: str | None = None) -> Any:
        """What a completed run returned, or one of its tasks: a JSON value, or bytes."""
        (value,) = self._send(runs.get_value(run_id, task))
        return value

    def download_result(self, run_id: str, target: WritableFile, task: str | None = None) -> int:
        """Write what a run or a task returned into an open file, JSON or bytes; returns how many bytes.

        For values that are too large for the memory of this program.
        """
        return self._download(runs.value_path(run_id, task), target)

    def run(self, flow_name: str, /, **params: Any) -> Any:
        """Submit a run with these params, wait for its end, and return its result.

        RunFailed if it is not COMPLETED. It is submitted once, however often the request is repeated. For a
        tag, a time limit and so on: `submit_run`, `wait` and `result`.
        """
        accepted = self.submit_run(flow_name, params, idempotency_key=str(uuid4()))
        ended = self.wait(accepted["run_id"])
        if ended["status"] != api.COMPLETED:
            raise RunFailed(ended)
        return self.result(accepted["run_id"])

    def _download(self, path: str, target: WritableFile) -> int:
        size = 0
        try:
            with self._http.stream("GET", path) as response:
                if not response.is_success:
                    response.read()
                    raise PyocoHttpError(response)
                for block in response.iter_bytes():
                    size += target.write(block)
        except httpx.RequestError as error:
            raise self._unreachable(error) from error
        return size

    def follow_logs(
        self, run_id: str, *, after: str | None = None, **selected: Unpack[LogFilter]
    ) -> Generator[LogLine, None, str | None]:
        """Each line as the run prints it, to the run's end; the generator returns its status then.

        The client reconnects when the gateway is away for a moment; no line is lost or repeated.
        """
        end = yield from self._follow(runs.follow_logs(run_id, after=after, **selected))
        status: str | None = json.loads(end.data)["status"]
        return status

    def wait(self, run_id: str, timeout_sec: float | None = None) -> Run:
        """The snapshot of a run that has ended; TimeoutError when it has not in `timeout_sec`."""
        (last,) = deque(self.follow(run_id, timeout_sec), maxlen=1)
        return last

    def follow(
        self, run_id: str, timeout_sec: float | None = None, *, include: Sequence[str] = ()
    ) -> Iterator[Run]:
        """Each new snapshot of a run as it is seen, the one of its end last; TimeoutError as in `wait`.

        A gateway without streams, or after a proxy that refuses them, is polled.
        """
        following = RunFollowing(run_id, timeout_sec, include)
        try:
            yield from self._watched(following)
            if not following.ended:  # removed, or not watched to the end
                yield from self._polled(following)
        except TimeoutError:
            raise following.timeout_error() from None

    def _watched(self, following: RunFollowing) -> Iterator[Run]:
        try:
            for run in self._follow(following.stream()):
                if following.is_change(run):
                    yield run
        except (GatewayUnreachable, PyocoHttpError) as failure:
            if not refuses_events(failure):
                raise

    def _polled(self, following: RunFollowing) -> Iterator[Run]:
        polling = Polling(self._patience_sec)
        while not following.ended:
            try:
                run = self._send(following.poll())
            except (GatewayUnreachable, PyocoHttpError) as failure:
                polling.failed(failure)
            else:
                polling.succeeded()
                if following.is_change(run):
                    polling.changed()
                    yield run
            if not following.ended:
                time.sleep(polling.pause(following.deadline))
