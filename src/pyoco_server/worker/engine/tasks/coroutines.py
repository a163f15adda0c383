"""Runs the coroutine of an `async def` task in an event loop of its own.

A question to a person suspends the task when nothing else of it can continue, so that questions asked in
parallel are all open before the run waits. Whether something can continue is known exactly if the loop has
no timer, no connection and no thread to wait for, or if every asyncio task has asked. Otherwise, for example
beside an idle connection, the other awaits have a limited time. Steps are always completed.
"""

import asyncio
import selectors
import time
from asyncio import CancelledError
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")

# How long other awaits may take after a question was opened or a step has ended.
LINGER_SEC = 5.0


class CoroutineRunner:
    """Runs one coroutine, on the calling thread; `cancel` may be called from another."""

    def __init__(self) -> None:
        self._selector = _IdleHook(self._before_idle)
        self._loop = _Loop(self._selector)
        # The loop's own, which wakes it from other threads.
        self._own_descriptors = len(self._selector.get_map())
        self._task: asyncio.Task[Any] | None = None
        self._not_awaited: set[AwaitedCall[Any]] = set()
        # The keys of executing steps, and of the steps that open questions were asked in.
        self._steps: list[str] = []
        self._asked_in: list[str] = []
        self._linger_until = 0.0
        self._suspended = False
        self._cancelled = False

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Its result; CancelledError if it was cancelled or has been suspended."""
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                result = runner.run(self._main(coroutine))
            if self._not_awaited and not self._suspended:
                raise next(iter(self._not_awaited)).misuse()
        finally:
            for call in self._not_awaited:
                call.close()
        return result

    def cancel(self) -> None:
        self._cancelled = True
        task = self._task
        if task is not None:
            # It may have ended, and closed its loop.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(task.cancel)

    def is_running_here(self) -> bool:
        """Whether the caller is code of this coroutine, not of a thread or another event loop."""
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    def to_await(self, what: str, coroutine: Coroutine[Any, Any, T]) -> "AwaitedCall[T]":
        call = AwaitedCall(what, coroutine, self._not_awaited.discard)
        self._not_awaited.add(call)
        return call

    async def suspend(self, step: str, on_cancelled: Callable[[], None]) -> NoReturn:
        """Wait until the task is suspended; `on_cancelled` is called if its own code cancels the question.

        `step` is the key of the step that asks, or that of the task.
        """
        if self._suspended:
            raise CancelledError
        self._asked_in.append(step)
        self._linger()
        try:
            await self._loop.create_future()
        finally:
            self._asked_in.remove(step)
            if not self._suspended:
                on_cancelled()
        raise AssertionError("nothing resolves this future")

    @contextmanager
    def executing(self, step: str) -> Iterator[None]:
        """The task is not suspended within, except for questions of this step itself."""
        self._steps.append(step)
        try:
            yield
        finally:
            self._steps.remove(step)
            self._linger()

    async def _main(self, coroutine: Coroutine[Any, Any, T]) -> T:
        self._task = asyncio.current_task()
        if self._cancelled:
            coroutine.close()
            raise CancelledError
        return await coroutine

    def _linger(self) -> None:
        self._linger_until = time.monotonic() + LINGER_SEC

    def _before_idle(self, timeout: float | None) -> float | None:
        """How long the loop, which has nothing to do, may wait. Suspends the task if nothing can continue."""
        if not self._asked_in or self._suspended or self._is_step_executing():
            return timeout
        left_sec = self._linger_until - time.monotonic()
        if left_sec > 0 and self._may_continue(timeout):
            return left_sec if timeout is None else min(timeout, left_sec)
        self._suspended = True
        assert self._task is not None
        self._loop.call_soon(self._task.cancel)
        return 0

    def _is_step_executing(self) -> bool:
        """Whether a step executes that does not wait for a person itself."""
        return any(
            not any(f"{asking}|".startswith(f"{step}|") for asking in self._asked_in) for step in self._steps
        )

    def _may_continue(self, timeout: float | None) -> bool:
        if len(asyncio.all_tasks(self._loop)) == len(self._asked_in):
            return False
        has_descriptors = len(self._selector.get_map()) > self._own_descriptors
        return timeout is not None or has_descriptors or self._loop.thread_jobs > 0


class AwaitedCall(Coroutine[Any, Any, T]):
    """`ctx.human(...)` or `ctx.step(...)` of an `async def` task, which has to be awaited.

    Without `await`, `if ctx.human(...)` would always be a yes, because an object is true: so its truth value
    raises.
    """

    def __init__(
        self,
        what: str,
        coroutine: Coroutine[Any, Any, T],
        on_start: Callable[["AwaitedCall[Any]"], None],
    ) -> None:
        self._what = what
        self._coroutine = coroutine
        self._on_start = on_start

    def misuse(self) -> TypeError:
        return TypeError(f"{self._what} was not awaited; in an `async def` task write `await {self._what}`")

    def __bool__(self) -> bool:
        raise self.misuse()

    def __await__(self) -> Generator[Any, Any, T]:
        self._on_start(self)
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        self._on_start(self)
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        self._on_start(self)
        return self._coroutine.throw(*error)

    def close(self) -> None:
        self._coroutine.close()


class _IdleHook(selectors.DefaultSelector):
    """Calls `before_idle` before the event loop waits, with the time until its next timer."""

    def __init__(self, before_idle: Callable[[float | None], float | None]) -> None:
        super().__init__()
        self._before_idle = before_idle

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            timeout = self._before_idle(timeout)
        return super().select(timeout)


class _Loop(asyncio.SelectorEventLoop):
    """Counts the functions that threads execute for it."""

    thread_jobs = 0

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> "asyncio.Future[T]":  # type: ignore[override]
        job = super().run_in_executor(executor, func, *args)
        self.thread_jobs += 1
        job.add_done_callback(self._job_ended)
        return job

    def _job_ended(self, _: "asyncio.Future[Any]") -> None:
        self.thread_jobs -= 1
