"""The load on a library peer, in its environment: commands on stdin, responses on stdout, as JSON lines.

Every peer's own Python runs this file, so it needs nothing but the standard library.
"""

import asyncio
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Protocol

_POLL_SEC = 0.01


class Library(Protocol):
    """The calls of a peer that the driver uses. Those that enqueue are asynchronous if the peer is."""

    def function(self) -> Any:
        """Enqueue a task that does nothing."""

    def flow(self) -> Any:
        """Enqueue a task that executes the Pyoco flow that does nothing."""

    def stamp(self, sent_at: float, stamps: str) -> Any:
        """Enqueue a task that appends when it was sent and when it started to the file `stamps`."""

    def chain(self, tasks: int, task_sec: float, limit_sec: float) -> None:
        """Run so many tasks of that length in a row; return when the last is known to be done."""

    def finished(self) -> int:
        """How many tasks have ended so far, as the peer has recorded it."""


class Driver:
    """Executes the commands with threads, each of which waits for its own call."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._awaited = 0

    def submit(self, runs: int, connections: int, limit_sec: float, work: str) -> dict[str, Any]:
        """So many tasks of that kind, or as many as the time allows."""
        finished_before = self._library.finished()
        latencies: list[float] = []
        started = time.perf_counter()
        self._enqueue(
            getattr(self._library, work), _WhileTime(runs, started + limit_sec), connections, latencies
        )
        seconds = time.perf_counter() - started
        self._awaited = finished_before + len(latencies)
        return {"seconds": seconds, "latencies": latencies}

    def sustain(self, seconds: float, connections: int, most_queued: int) -> dict[str, Any]:
        """Flows for so long, a part of the queue at a time, each when there is room for it."""
        finished_before = self._library.finished()
        latencies: list[float] = []
        started = time.perf_counter()
        part = most_queued // 4
        while time.perf_counter() < started + seconds:
            if len(latencies) - (self._library.finished() - finished_before) > most_queued - part:
                time.sleep(_POLL_SEC)
            else:
                self._enqueue(self._library.flow, _WhileTime(part, started + seconds), connections, latencies)
        ended = self._library.finished() - finished_before
        self._awaited = finished_before + len(latencies)
        return {"ended": ended, "seconds": time.perf_counter() - started, "latencies": latencies}

    def wait(self, limit_sec: float) -> dict[str, Any]:
        """Until all that was submitted has ended, or the time is up."""
        limit = time.perf_counter() + limit_sec
        while (finished := self._library.finished()) < self._awaited and time.perf_counter() < limit:
            time.sleep(_POLL_SEC)
        return {"missing": max(0, self._awaited - finished)}

    def stamp(self, runs: int, every_sec: float, stamps: str) -> dict[str, Any]:
        self._awaited = self._library.finished() + runs
        self._enqueue_stamps(runs, every_sec, stamps)
        return {}

    def chain(self, tasks: int, task_sec: float, limit_sec: float) -> dict[str, Any]:
        started = time.perf_counter()
        self._library.chain(tasks, task_sec, limit_sec)
        return {"seconds": time.perf_counter() - started}

    def _enqueue(
        self, one: Callable[[], Any], numbers: Iterator[int], connections: int, latencies: list[float]
    ) -> None:
        def enqueuer() -> None:
            for _ in numbers:
                sent_at = time.perf_counter()
                one()
                latencies.append(time.perf_counter() - sent_at)

        threads = [threading.Thread(target=enqueuer) for _ in range(connections)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _enqueue_stamps(self, runs: int, every_sec: float, stamps: str) -> None:
        for pause in pauses(runs, every_sec):
            time.sleep(pause)
            self._library.stamp(time.time(), stamps)


class AsyncDriver(Driver):
    """The same with asyncio tasks."""

    def __init__(self, library: Library, runner: asyncio.Runner) -> None:
        super().__init__(library)
        self._run: Callable[[Awaitable[None]], None] = runner.run  # type: ignore[assignment]

    def _enqueue(
        self, one: Callable[[], Any], numbers: Iterator[int], connections: int, latencies: list[float]
    ) -> None:
        async def enqueuer() -> None:
            for _ in numbers:
                sent_at = time.perf_counter()
                await one()
                latencies.append(time.perf_counter() - sent_at)

        async def all_of_them() -> None:
            async with asyncio.TaskGroup() as group:
                for _ in range(connections):
                    group.create_task(enqueuer())

        self._run(all_of_them())

    def _enqueue_stamps(self, runs: int, every_sec: float, stamps: str) -> None:
        async def one_after_the_other() -> None:
            for pause in pauses(runs, every_sec):
                await asyncio.sleep(pause)
                await self._library.stamp(time.time(), stamps)

        self._run(one_after_the_other())


def pauses(runs: int, every_sec: float) -> Iterator[float]:
    """How long to wait before each call, so that calls begin at a steady pace whatever they take."""
    started = time.perf_counter()
    for number in range(runs):
        yield max(0.0, started + number * every_sec - time.perf_counter())


class _WhileTime:
    """Numbers for several threads at once, as long as the time lasts. (A generator is for one thread.)"""

    def __init__(self, runs: int, limit: float) -> None:
        self._numbers = iter(range(runs))
        self._limit = limit

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        if time.perf_counter() > self._limit:
            raise StopIteration
        return next(self._numbers)


def serve(driver: Driver) -> None:
    """Execute one command after the other until stdin ends."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is no answer
    for line in sys.stdin:
        order = json.loads(line)
        try:
            answer = getattr(driver, order.pop("do"))(**order)
        except Exception as error:  # noqa: BLE001 - told to the benchmark, which decides
            traceback.print_exc()
            answer = {"error": _told(error)}
        print(json.dumps(answer), file=answers)


def _told(error: BaseException) -> str:
    """An error with what caused it: a library's own message is often only that something failed."""
    text = f"{type(error).__name__}: {error}"
    return f"{text} ({_told(error.__cause__)})" if error.__cause__ else text
