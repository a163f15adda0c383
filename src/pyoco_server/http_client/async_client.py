"""The client for programs with an event loop: the same questions, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import BinaryIO, Concatenate, ParamSpec, Self, TypeVar

import httpx

from pyoco_server.http_client import operation_calls as operation_endpoints
from pyoco_server.http_client import run_calls as endpoints
from pyoco_server.http_client import wait_calls as wait_endpoints
from pyoco_server.http_client import wheel_calls as wheel_endpoints
from pyoco_server.http_client.call_types import Pages, Request, Stream
from pyoco_server.http_client.client_errors import Failure, GatewayUnreachable, PyocoHttpError, refuses_events
from pyoco_server.http_client.event_stream import EventReader, ServerSentEvent
from pyoco_server.http_client.response_types import Run
from pyoco_server.http_client.retry_policy import Following, Polling, Tries
from pyoco_server.http_client.run_following import RunFollowing
from pyoco_server.http_client.transport import Connection, documented_by

P = ParamSpec("P")
T = TypeVar("T")


class AsyncConnection(Connection[httpx.AsyncClient]):
    """How a question is asked by somebody who does other things meanwhile."""

    _http_class = httpx.AsyncClient

    async def aclose(self) -> None:
        """Close the connections to the gateway."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _send(self, request: Request[T]) -> T:
        tries = Tries(self._retries if request.repeatable else 0)
        while True:
            try:
                return self._answer_in(await self._http.request(**request.for_httpx()), request)
            except httpx.RequestError as error:
                failure: Failure = self._unreachable(error)
            except PyocoHttpError as error:
                failure = error
            await asyncio.sleep(tries.failed(failure))

    async def _all(self, pages: Pages[T]) -> AsyncGenerator[T, None]:
        place = pages.begin
        while True:
            page = await self._send(pages.page(place))
            for item in page[pages.items]:
                yield item
            place = pages.next(page, place)
            if place is None:
                return

    async def _follow(self, stream: Stream[T]) -> AsyncGenerator[T, None]:
        """What the events tell."""
        following = Following(stream, self._patience_sec)
        while True:
            try:
                async with aclosing(self._events(following)) as events:
                    async for event in events:
                        following.heard(event)
                        told = stream.read(event)
                        if told is not None:
                            yield told
                        if stream.ends(event, told):
                            return
                pause = following.cut_off()
            except (GatewayUnreachable, PyocoHttpError) as failure:
                pause = following.failed(failure)
            await asyncio.sleep(pause)

    async def _events(self, following: Following) -> AsyncGenerator[ServerSentEvent, None]:
        """The events of one answer, until it ends or is cut off."""
        opened, reader = False, EventReader()
        try:
            async with self._http.stream(**following.request(self._connect_sec)) as response:
                if not response.is_success:
                    await response.aread()
                self._check_events(response)
                opened = True
                async for chunk in response.aiter_bytes():
                    for event in reader.feed(chunk):
                        yield event
        except httpx.RequestError as error:
            if not opened:
                raise self._unreachable(error) from error


def _sent(endpoint: Callable[P, Request[T]]) -> Callable[Concatenate[AsyncConnection, P], Awaitable[T]]:
    @documented_by(endpoint)
    async def method(self: AsyncConnection, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._send(endpoint(*args, **kwargs))

    return method


def _paged(
    endpoint: Callable[P, Pages[T]],
) -> Callable[Concatenate[AsyncConnection, P], AsyncGenerator[T, None]]:
    @documented_by(endpoint, "AsyncGenerator[{}, None]")
    def method(self: AsyncConnection, /, *args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[T, None]:
        return self._all(endpoint(*args, **kwargs))

    return method


def _streamed(
    endpoint: Callable[P, Stream[T]],
) -> Callable[Concatenate[AsyncConnection, P], AsyncGenerator[T, None]]:
    @documented_by(endpoint, "AsyncGenerator[{}, None]")
    def method(self: AsyncConnection, /, *args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[T, None]:
        return self._follow(endpoint(*args, **kwargs))

    return method


class AsyncPyocoHttpClient(AsyncConnection):
    """A connection to one gateway. Close it when done, or use it in an `async with` statement.

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
    follow_logs = _streamed(endpoints.follow_logs)
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

    async def download_wheel(self, name: str, target: BinaryIO) -> int:
        """Write a wheel of the registry into an open file; returns how many bytes it has."""
        size = 0
        try:
            async with self._http.stream("GET", wheel_endpoints.wheel_path(name)) as response:
                if not response.is_success:
                    await response.aread()
                    raise PyocoHttpError(response)
                async for block in response.aiter_bytes():
                    size += target.write(block)
        except httpx.RequestError as error:
            raise self._unreachable(error) from error
        return size

    async def wait(self, run_id: str, timeout_sec: float | None = None) -> Run:
        """The snapshot of a run that has ended; TimeoutError when it has not in `timeout_sec`."""
        async with aclosing(self.follow(run_id, timeout_sec)) as runs:
            async for run in runs:
                last = run
        return last

    async def follow(
        self, run_id: str, timeout_sec: float | None = None, *, include: Sequence[str] = ()
    ) -> AsyncGenerator[Run, None]:
        """Each new snapshot of a run as it is seen, the one of its end last; TimeoutError as in `wait`.

        A gateway that has no streams, or is behind a proxy that refuses them, is asked again and again.
        """
        following = RunFollowing(run_id, timeout_sec, include)
        try:
            async with aclosing(self._watched(following)) as watched:
                async for run in watched:
                    yield run
            if not following.ended:  # removed, or not watched to the end
                async with aclosing(self._polled(following)) as polled:
                    async for run in polled:
                        yield run
        except TimeoutError:
            raise following.too_late() from None

    async def _watched(self, following: RunFollowing) -> AsyncGenerator[Run, None]:
        try:
            async with aclosing(self._follow(following.stream())) as runs:
                async for run in runs:
                    if following.is_news(run):
                        yield run
        except (GatewayUnreachable, PyocoHttpError) as failure:
            if not refuses_events(failure):
                raise

    async def _polled(self, following: RunFollowing) -> AsyncGenerator[Run, None]:
        polling = Polling(self._patience_sec)
        while not following.ended:
            try:
                run = await self._send(following.poll())
            except (GatewayUnreachable, PyocoHttpError) as failure:
                polling.failed(failure)
            else:
                polling.answered()
                if following.is_news(run):
                    polling.something_new()
                    yield run
            if not following.ended:
                await asyncio.sleep(polling.pause(following.deadline))
