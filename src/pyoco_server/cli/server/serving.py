"""Runs a server or worker on uvloop until it ends or a signal stops it.

The first SIGTERM or Ctrl-C starts an orderly shutdown; the second one exits at once. Processes that this one
started then exit on their own.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

import uvloop

from pyoco_server.cli.entry import INTERRUPTED, OK
from pyoco_server.config import NatsBackendConfig
from pyoco_server.config.process_isolation import hide_process

T = TypeVar("T")

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
# How long the event loop may wait for the interpreter while another thread computes. With Python's 5 ms, the
# thread that writes the index delayed the starts of single runs.
_SWITCH_INTERVAL_SEC: Final = 0.0005


class StopRequest:
    """Set by the first signal that asks this process to stop."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self._signal: signal.Signals | None = None

    @property
    def exit_code(self) -> int:
        return INTERRUPTED if self._signal is signal.SIGINT else OK

    def listen(self) -> None:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._on_signal, number)

    async def before(self, work: Coroutine[Any, Any, T]) -> T | None:
        """The result of the work; None when the stop request comes first and the work is cancelled."""
        task = asyncio.ensure_future(work)
        stopped = asyncio.ensure_future(self.event.wait())
        try:
            await asyncio.wait([task, stopped], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
        return None if task.cancelled() else task.result()

    def _on_signal(self, number: signal.Signals) -> None:
        if self._signal is not None:
            os._exit(128 + number)
        self._signal = number
        self.event.set()


def serve(main: Callable[[StopRequest], Awaitable[None]], config: NatsBackendConfig) -> int:
    """Run `main` until it returns; the exit code is that of the signal that stopped it, or 0."""
    if config.hide_process:
        hide_process()
    sys.setswitchinterval(_SWITCH_INTERVAL_SEC)

    async def watched() -> int:
        stop = StopRequest()
        stop.listen()
        await main(stop)
        return stop.exit_code

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(watched())


async def cancel(task: asyncio.Task[None]) -> None:
    """Cancel it, and return when it has ended."""
    task.cancel()
    await asyncio.wait([task])


def report_ready(descriptor: int | None, **facts: Any) -> None:
    """Write one line of JSON to the descriptor that the parent process gave with --ready-fd."""
    if descriptor is None:
        return
    with os.fdopen(descriptor, "w", encoding="utf-8") as parent:
        parent.write(json.dumps(facts) + "\n")
