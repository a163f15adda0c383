"""Runs a long-lived command: on uvloop, until it ends by itself or a signal asks it to.

The first SIGTERM or Ctrl-C asks for an orderly end; the second one leaves at once. That loses nothing
but time: what this process started ends by itself when it is gone.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

import uvloop

from pyoco_server.cli import exit_codes

T = TypeVar("T")

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """Whether, and by which signal, this process was asked to end."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self._signal: signal.Signals | None = None

    @property
    def exit_code(self) -> int:
        return exit_codes.INTERRUPTED if self._signal is signal.SIGINT else exit_codes.OK

    def listen(self) -> None:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._on_signal, number)

    async def before(self, work: Coroutine[Any, Any, T]) -> T | None:
        """What the work gives; None when the request comes first, and then the work is cancelled."""
        task = asyncio.ensure_future(work)
        asked = asyncio.ensure_future(self.event.wait())
        try:
            await asyncio.wait([task, asked], return_when=asyncio.FIRST_COMPLETED)
        finally:
            asked.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
        return None if task.cancelled() else task.result()

    def _on_signal(self, number: signal.Signals) -> None:
        if self._signal is not None:
            os._exit(128 + number)
        self._signal = number
        self.event.set()


def serve(main: Callable[[StopRequest], Awaitable[None]]) -> int:
    """Run `main` until it returns; the exit code is that of the signal which ended it, or 0."""

    async def watched() -> int:
        stop = StopRequest()
        stop.listen()
        await main(stop)
        return stop.exit_code

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(watched())
