"""An asyncio event loop with virtual time, for the processes of a simulated world.

Each process has a ready queue of its own, which is first in, first out as in asyncio. Which process runs next
is decided by the seed. Time passes only when no process can run: then it is the time of the next timer. There
is no I/O and no thread: what is given to a thread runs in one step, a moment later.
"""

import asyncio
import contextvars
import heapq
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from tests.simulation.choices import Choices

# How long work on a thread takes.
_THREAD_SEC: Final = 0.0005
# How often a coroutine may await while it is closed.
_MOST_CLOSES: Final = 100


class Handle:
    """A callback to run; lighter than asyncio's."""

    __slots__ = ("args", "callback", "context", "is_cancelled", "process", "time")

    def __init__(
        self,
        process: "Process",
        callback: Callable[..., Any],
        args: tuple[Any, ...],
        context: contextvars.Context,
        time: float,
    ) -> None:
        self.process = process
        self.callback = callback
        self.args = args
        self.context = context
        self.time = time
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled

    def when(self) -> float:
        return self.time


class Process:
    """What runs, crashes and pauses as a whole; it has a clock of its own."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.paused = False
        # Whether it is among those that can run.
        self.is_queued = False
        # Of its clocks, in seconds.
        self.wall_offset = 0.0
        self.monotonic_offset = 0.0
        self.ready: deque[Handle] = deque()
        self.context = contextvars.Context()
        self.context.run(PROCESS.set, self)

    def __repr__(self) -> str:
        return f"<{self.name}>"


PROCESS: contextvars.ContextVar[Process] = contextvars.ContextVar("process")


class Deadlock(Exception):
    """Nothing can run any more, and no timer is set."""


class OutOfTime(Exception):
    """The simulated time is over before the scenario has ended."""


class NumberedFuture(asyncio.Future[Any]):
    """Its hash is its number, so that sets of futures have the same order each time."""

    number = 0

    def __hash__(self) -> int:
        return self.number


class NumberedTask(asyncio.Task[Any]):
    """The same for tasks."""

    def __init__(self, number: int, coro: Any, **options: Any) -> None:
        # First: asyncio adds it to its set of all tasks, where equal hashes make a search long.
        self.number = number
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self.number


class SimulationLoop(asyncio.BaseEventLoop):
    def __init__(self, choices: Choices, *, max_sec: float = 3600.0) -> None:
        super().__init__()
        self._choices = choices
        self._max_sec = max_sec
        # The scenario itself, and the NATS server.
        self.outside = Process("world")
        self.running: Process = self.outside
        self.now = 0.0
        self._timers: list[tuple[float, int, Handle]] = []
        self._timer_count = 0
        # How many tasks and futures there were.
        self._numbers = 0
        self._runnable: list[Process] = []
        # Tasks of crashed processes are kept: collecting them would run their `finally` blocks.
        self.tasks: list[asyncio.Task[Any]] = []
        # What asyncio would log: callbacks and tasks that failed.
        self.errors: list[dict[str, Any]] = []
        self._ended = False
        self._stopping = False
        self.set_task_factory(self._new_task)
        self.set_exception_handler(lambda _, details: self.errors.append(details))

    def time(self) -> float:
        return self.now

    # What asyncio calls

    def create_future(self) -> asyncio.Future[Any]:
        future = NumberedFuture(loop=self)
        self._numbers += 1
        future.number = self._numbers
        return future

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> Handle:
        if context is None:
            context = contextvars.copy_context()
            process = self.running
        else:
            process = context.get(PROCESS, self.outside)
        handle = Handle(process, callback, args, context, self.now)
        self._add_ready(process, handle)
        return handle

    # There is one thread.
    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., Any],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> Handle:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., Any],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> Handle:
        if context is None:
            context = contextvars.copy_context()
            process = self.running
        else:
            process = context.get(PROCESS, self.outside)
        timer = Handle(process, callback, args, context, when)
        self._timer_count += 1
        heapq.heappush(self._timers, (when, self._timer_count, timer))
        return timer

    def call_in(self, process: Process, when: float, callback: Callable[..., Any], *args: Any) -> None:
        """Call it then, as a step of this process; quicker than `call_at` with its context."""
        timer = Handle(process, callback, args, process.context, when)
        self._timer_count += 1
        heapq.heappush(self._timers, (when, self._timer_count, timer))

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run it in one step of the calling process, after the time that a thread takes."""
        done = self.create_future()

        def work() -> None:
            if done.cancelled():
                return
            try:
                result = func(*args)
            except BaseException as error:
                done.set_exception(error)
            else:
                done.set_result(result)

        self.call_later(_THREAD_SEC, work)
        return done

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """There is none."""

    async def shutdown_asyncgens(self) -> None:
        """Those of crashed processes are never closed."""

    def _write_to_self(self) -> None:
        """Nothing waits for a socket."""

    # Processes

    def wake(self, process: Process) -> None:
        """Run the process again after a pause."""
        process.paused = False
        if process.ready and process.alive and not process.is_queued:
            process.is_queued = True
            self._runnable.append(process)

    def stop_process(self, process: Process) -> None:
        """Nothing of it runs any more: not even its `finally` blocks."""
        process.alive = False
        process.ready.clear()

    def _add_ready(self, process: Process, handle: Handle) -> None:
        if not process.alive or self._ended:
            return
        process.ready.append(handle)
        if not process.is_queued and not process.paused:
            process.is_queued = True
            self._runnable.append(process)

    def _new_task(
        self, loop: asyncio.AbstractEventLoop, coro: Any, context: contextvars.Context | None = None
    ) -> asyncio.Task[Any]:
        self._numbers += 1
        task = NumberedTask(self._numbers, coro, loop=loop, context=context)
        self.tasks.append(task)
        return task

    def run_forever(self) -> None:
        """Until `stop` is called."""
        asyncio._set_running_loop(self)
        try:
            self._run_until_stopped()
        finally:
            self._stopping = False
            self.running = self.outside
            asyncio._set_running_loop(None)

    def _run_until_stopped(self) -> None:
        """One function, with what it needs in local names: a schedule has thousands of steps."""
        runnable, outside, below = self._runnable, self.outside, self._choices.below
        while not self._stopping:
            if not runnable:
                self._advance()
                continue
            index = below("next", len(runnable)) if len(runnable) > 1 else 0
            process = runnable[index]
            ready = process.ready
            if ready and not process.paused:
                handle = ready.popleft()
                if not handle.is_cancelled:
                    self.running = process
                    try:
                        handle.context.run(handle.callback, *handle.args)
                    except AssertionError:
                        # Of the simulation itself: a message was stored that breaks an invariant.
                        raise
                    except Exception as error:
                        self.call_exception_handler({"message": "a callback has failed", "exception": error})
                    self.running = outside
            if not ready or process.paused:
                # What has become runnable meanwhile is behind it.
                process.is_queued = False
                del runnable[index]

    def _advance(self) -> None:
        """Go to the time of the next timer, and make its process ready."""
        while self._timers:
            when, _, timer = heapq.heappop(self._timers)
            if timer.is_cancelled or not timer.process.alive:
                continue
            if when > self._max_sec:
                raise OutOfTime(f"the scenario has not ended after {self._max_sec:g} s")
            if when > self.now:
                self.now = when
            self._add_ready(timer.process, timer)
            return
        raise Deadlock("nothing runs any more, and nothing is scheduled")

    def abandon_all(self) -> None:
        """Close what still runs, without any effect on the world; called at its end."""
        self._ended = True
        for task in self.tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                _close(task.get_coro())
        self.tasks.clear()
        self._timers.clear()


def _close(coroutine: Any) -> None:
    """Close a coroutine, also one that awaits again in a `finally` block."""
    for _ in range(_MOST_CLOSES):
        try:
            coroutine.close()
        except RuntimeError:
            # It awaits again.
            continue
        except BaseException:
            return
        return
