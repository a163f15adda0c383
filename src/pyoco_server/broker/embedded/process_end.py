"""The end of a process that this program started: asked for first, and by force when it takes too long."""

import asyncio
import contextlib
import signal
from asyncio.subprocess import Process


async def end_process(process: Process, patience_sec: float) -> bool:
    """Return when the process has ended: True if by itself, False if it was killed after `patience_sec`."""
    _signal(process, signal.SIGTERM)
    try:
        async with asyncio.timeout(patience_sec):
            await process.wait()
    except TimeoutError:
        _signal(process, signal.SIGKILL)
        await process.wait()
        return False
    return True


def _signal(process: Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has ended already
        process.send_signal(number)
