"""The client for programs that wait for each answer."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from types import TracebackType
from typing import BinaryIO, Concatenate, ParamSpec, Self, TypeVar, Unpack

import httpx

from pyoco_server.http_client import operation_calls as operation_endpoints
from pyoco_server.http_client import run_calls as endpoints
from pyoco_server.http_client import wait_calls as wait_endpoints
from pyoco_server.http_client import wheel_calls as wheel_endpoints
from pyoco_server.http_client.call_types import Pages, Request, Stream
from pyoco_server.http_client.client_errors import Failure, GatewayUnreachable, PyocoHttpError, refuses_events
from pyoco_server.http_client.event_stream import ServerSentEvent, events_in
from pyoco_server.http_client.filter_params import LogFilter
from pyoco_server.http_client.response_types import LogLine, Run
from pyoco_server.http_client.retry_policy import Following, Polling, Tries
from pyoco_server.http_client.run_following import RunFollowing
from pyoco_server.http_client.transport import Connection, documented_by

P = ParamSpec("P")
T = TypeVar("T")


class SyncConnection(Connection[httpx.Client]):
    """How a question is asked by somebody who waits for the answer."""

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
        tries = Tries(self._retries if request.repeatable else 0)
        while True:
            try:
                return self._answer_in(self._http.request(**request.for_httpx()), request)
            except httpx.RequestError as error:
                failure: Failure = self._unreachable(error)
            except PyocoHttpError as error:
                failure = error
            time.sleep(tries.failed(failure))

    def _all(self, pages: Pages[T]) -> Iterator[T]:
        place = pages.begin
        while True:
            page = self._send(pages.page(place))
            yield from page[pages.items]
            place = pages.next(page, place)
            if place is None:
                return

    def _follow(self, stream: Stream[T]) -> Generator[T, None, ServerSentEvent]:
        """What the events tell; returns the last of them."""
        following = Following(stream, self._patience_sec)
        while True:
            try:
                for event in self._events(following):
                    following.heard(event)
                    told = stream.read(event)
                    if told is not None:
                        yield told
                    if stream.ends(event, told):
                        return event
                pause = following.cut_off()
            except (GatewayUnreachable, PyocoHttpError) as failure:
                pause = following.failed(failure)
            time.sleep(pause)

    def _events(self, following: Following) -> Iterator[ServerSentEvent]:
        """The events of one answer, until it ends or is cut off."""
        opened = False
        try:
            with self._http.stream(**following.request(self._connect_sec)) as response:
                if not response.is_success:
                    response.read()
                self._check_events(response)
                opened = True
                yield from events_in(response.iter_bytes())
        except httpx.RequestError as error:
            if not opened:
                raise self._unreachable(error) from error


def _sent(endpoint: Callable[P, Request[T]]) -> Callable[Concatenate[SyncConnection, P], T]:
    @documented_by(endpoint)
    def method(self: SyncConnection, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._send(endpoint(*args, **kwargs))

    return method


def _paged(endpoint: Callable[P, Pages[T]]) -> Callable[Concatenate[SyncConnection, P], Iterator[T]]:
    @documented_by(endpoint, "Iterator[{}]")
    def method(self: SyncConnection, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return self._all(endpoint(*args, **kwargs))

    return method


def _streamed(endpoint: Callable[P, Stream[T]]) -> Callable[Concatenate[SyncConnection, P], Iterator[T]]:
    @documented_by(endpoint, "Iterator[{}]")
    def method(self: SyncConnection, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return self._follow(endpoint(*args, **kwargs))

    return method


class PyocoHttpClient(SyncConnection):
    """A connection to one gateway. Close it when done, or use it in a `with` statement.

    What a method does and takes is written in the function of its name, in one of the files of endpoints.
    """

    submit_run = _sent(endpoints.submit_run)
    submit_run_yaml = _sent(endpoints.submit_run_yaml)
    rerun = _sent(endpoints.rerun)
    cancel_run = _sent(endpoints.cancel_run)
    get_run = _sent(endpoints.get_run)
    get_tasks = _sent(endpoints.get_tasks)
    explain = _sent(endpoints.explain)
    list_runs = _sent(endpoints.list_runs)
    list_runs_vnext = _sent(endpoints.list_runs_vnext)
    iter_runs = _paged(endpoints.iter_runs)
    watch_run = _streamed(endpoints.watch_run)
    watch_runs = _streamed(endpoints.watch_runs)
    get_logs = _sent(endpoints.get_logs)
    iter_logs = _paged(endpoints.iter_logs)
    list_workers = _sent(operation_endpoints.list_workers)
    get_worker = _sent(operation_endpoints.get_worker)
    update_worker = _sent(operation_endpoints.update_worker)
    metrics = _sent(operation_endpoints.metrics)
    health = _sent(operation_endpoints.health)
    list_dlq = _sent(operation_endpoints.list_dlq)
    iter_dlq = _paged(operation_endpoints.iter_dlq)
    get_dlq = _sent(operation_endpoints.get_dlq)
    replay_dlq = _sent(operation_endpoints.replay_dlq)
    delete_dlq = _sent(operation_endpoints.delete_dlq)
    bulk_cancel = _sent(operation_endpoints.bulk_cancel)
    bulk_rerun = _sent(operation_endpoints.bulk_rerun)
    bulk_replay_dlq = _sent(operation_endpoints.bulk_replay_dlq)
    bulk_delete_dlq = _sent(operation_endpoints.bulk_delete_dlq)
    list_bulk = _sent(operation_endpoints.list_bulk)
    get_bulk = _sent(operation_endpoints.get_bulk)
    stop_bulk = _sent(operation_endpoints.stop_bulk)
    list_wheels = _sent(wheel_endpoints.list_wheels)
    wheel_history = _sent(wheel_endpoints.wheel_history)
    upload_wheel = _sent(wheel_endpoints.upload_wheel)
    delete_wheel = _sent(wheel_endpoints.delete_wheel)
    waits = _sent(wait_endpoints.waits)
    iter_waits = _paged(wait_endpoints.iter_waits)
    get_wait = _sent(wait_endpoints.get_wait)
    watch_waits = _streamed(wait_endpoints.watch_waits)
    respond = _sent(wait_endpoints.respond)
    resume = _sent(wait_endpoints.resume)
    retry = _sent(wait_endpoints.retry)

    def download_wheel(self, name: str, target: BinaryIO) -> int:
        """Write a wheel of the registry into an open file; returns how many bytes it has."""
        size = 0
        try:
            with self._http.stream("GET", wheel_endpoints.wheel_path(name)) as response:
                if not response.is_success:
                    response.read()
                    raise PyocoHttpError(response)
                for block in response.iter_bytes():
                    size += target.write(block)
        except httpx.RequestError as error:
            raise self._unreachable(error) from error
        return size

    def follow_logs(
        self, run_id: str, *, after: str | None = None, **wanted: Unpack[LogFilter]
    ) -> Generator[LogLine, None, str | None]:
        """Each line as the run prints it, to the run's end; the generator returns its status then.

        A gateway that goes away for a moment is waited for, and no line is lost or told twice.
        """
        end = yield from self._follow(endpoints.follow_logs(run_id, after=after, **wanted))
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

        A gateway that has no streams, or is behind a proxy that refuses them, is asked again and again.
        """
        following = RunFollowing(run_id, timeout_sec, include)
        try:
            yield from self._watched(following)
            if not following.ended:  # removed, or not watched to the end
                yield from self._polled(following)
        except TimeoutError:
            raise following.too_late() from None

    def _watched(self, following: RunFollowing) -> Iterator[Run]:
        try:
            for run in self._follow(following.stream()):
                if following.is_news(run):
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
                polling.answered()
                if following.is_news(run):
                    polling.something_new()
                    yield run
            if not following.ended:
                time.sleep(polling.pause(following.deadline))
