"""The client for programs with an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack
from uuid import uuid4

import httpx

from pyoco_server.aio.async_http import AsyncHttpClient
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
from pyoco_server.http_client.event_stream import EventReader, ServerSentEvent
from pyoco_server.http_client.filter_params import LogFilter
from pyoco_server.http_client.response_types import LogLine, Run
from pyoco_server.http_client.retry_policy import Polling, StreamPosition
from pyoco_server.http_client.runs import run_calls as runs
from pyoco_server.http_client.runs.run_calls import RunFollowing
from pyoco_server.http_client.transport import ClientBase

T = TypeVar("T")


class AsyncPyocoHttpClient(ClientBase[httpx.AsyncClient], ClientMethods, is_async=True):
    """A connection to one gateway. Close it when done, or use it in an `async with` statement."""

    _http_class = AsyncHttpClient

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
        request, retries = self._prepared(request)
        while True:
            try:
                return self._content_of(await self._http.request(**request.for_httpx()), request)
            except httpx.RequestError as error:
                failure: Failure = self._unreachable(error)
            except PyocoHttpError as error:
                failure = error
            await asyncio.sleep(retries.failed(failure))

    async def _all(self, pages: Pages[T]) -> AsyncGenerator[T, None]:
        position = pages.start
        while True:
            page = await self._send(pages.page(position))
            for item in page[pages.items]:
                yield item
            position = pages.next(page, position)
            if position is None:
                return

    async def _follow(self, stream: Stream[T]) -> AsyncGenerator[T, None]:
        """The items of the events."""
        position = StreamPosition(stream, self._patience_sec)
        while True:
            try:
                async with aclosing(self._events(position)) as events:
                    async for event in events:
                        position.received(event)
                        item = stream.read(event)
                        if item is not None:
                            yield item
                        if stream.ends(event, item):
                            return
                pause = position.disconnected()
            except (GatewayUnreachable, PyocoHttpError) as failure:
                pause = position.failed(failure)
            await asyncio.sleep(pause)

    async def _events(self, position: StreamPosition) -> AsyncGenerator[ServerSentEvent, None]:
        """The events of one connection, until it ends."""
        opened, reader = False, EventReader()
        try:
            async with self._http.stream(**position.request(self._connect_sec)) as response:
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

    async def download_wheel(self, name: str, target: WritableFile) -> int:
        """Write a wheel of the registry into an open file; returns how many bytes it has."""
        return await self._download(api.DOWNLOAD_WHEEL.url(wheel_name=name), target)

    async def download_artifact(self, run_id: str, name: str, target: WritableFile) -> int:
        """Write an artifact of a run into an open file; returns how many bytes it has."""
        return await self._download(api.GET_ARTIFACT.url(run_id=run_id, name=name), target)

    async def result(self, run_id: str, task: str | None = None) -> Any:
        """What a completed run returned, or one of its tasks: a JSON value, or bytes."""
        (value,) = await self._send(runs.get_value(run_id, task))
        return value

    async def download_result(self, run_id: str, target: WritableFile, task: str | None = None) -> int:
        """Write what a run or a task returned into an open file, JSON or bytes; returns how many bytes.

        For values that are too large for the memory of this program.
        """
        return await self._download(runs.value_path(run_id, task), target)

    async def run(self, flow_name: str, /, **params: Any) -> Any:
        """Submit a run with these params, wait for its end, and return its result.

        RunFailed if it is not COMPLETED. It is submitted once, however often the request is repeated. For a
        tag, a time limit and so on: `submit_run`, `wait` and `result`.
        """
        accepted = await self.submit_run(flow_name, params, idempotency_key=str(uuid4()))
        ended = await self.wait(accepted["run_id"])
        if ended["status"] != api.COMPLETED:
            raise RunFailed(ended)
        return await self.result(accepted["run_id"])

    async def _download(self, path: str, target: WritableFile) -> int:
        size = 0
        try:
            async with self._http.stream("GET", path) as response:
                if not response.is_success:
                    await response.aread()
                    raise PyocoHttpError(response)
                async for block in response.aiter_bytes():
                    size += target.write(block)
        except httpx.RequestError as error:
            raise self._unreachable(error) from error
        return size

    def follow_logs(
        self, run_id: str, *, after: str | None = None, **selected: Unpack[LogFilter]
    ) -> AsyncGenerator[LogLine, None]:
        """Each line as the run prints it, to the run's end.

        The client reconnects when the gateway is away for a moment; no line is lost or repeated.
        """
        return self._follow(runs.follow_logs(run_id, after=after, **selected))

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

        A gateway without streams, or after a proxy that refuses them, is polled.
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
            raise following.timeout_error() from None

    async def _watched(self, following: RunFollowing) -> AsyncGenerator[Run, None]:
        try:
            async with aclosing(self._follow(following.stream())) as runs:
                async for run in runs:
                    if following.is_change(run):
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
                polling.succeeded()
                if following.is_change(run):
                    polling.changed()
                    yield run
            if not following.ended:
                await asyncio.sleep(polling.pause(following.deadline))
