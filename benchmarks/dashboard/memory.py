"""The memory of a dashboard that stays open while runs come and go."""

import asyncio
import time
from contextlib import AsyncExitStack
from typing import Final

from playwright.async_api import Browser

from benchmarks.dashboard.browser import Instrument
from benchmarks.harness.http_load import HttpConnection
from benchmarks.peers.http_stack import HttpStack

_RUNS_PER_SEC: Final = 20.0
_LOOKS: Final = 5
_TASKS: Final = 1000
# Until the screens have all that they show.
_SETTLE_SEC: Final = 10.0


async def memory(stack: HttpStack, chromium: Browser, minutes: float) -> None:
    seconds = minutes * 60
    connection = await HttpConnection.open(stack.port)
    run_id = await stack.submit_flow(connection, "busy", task_sec=(seconds + 2 * _SETTLE_SEC) / _TASKS)
    async with AsyncExitStack() as tabs:
        opened = {
            name: await tabs.enter_async_context(Instrument.opened(chromium))
            for name in ("home", "runs", "run")
        }
        for name, path in (("home", ""), ("runs", "runs"), ("run", f"runs/{run_id}")):
            await opened[name].page.goto(f"http://127.0.0.1:{stack.port}/#/{path}")
        async with asyncio.TaskGroup() as group:
            coming = group.create_task(_runs_come(stack, seconds + _SETTLE_SEC))
            await asyncio.sleep(_SETTLE_SEC)
            began = time.perf_counter()
            for look in range(_LOOKS):
                await asyncio.sleep(began + seconds * look / (_LOOKS - 1) - time.perf_counter())
                parts = [f"{name} {heap:.1f} MB, {nodes} nodes" for name, (heap, nodes) in [
                    (name, await tab.memory()) for name, tab in opened.items()
                ]]  # fmt: skip
                print(f"after {(time.perf_counter() - began) / 60:4.1f} min: {'; '.join(parts)}")
            print(f"  {await coming} runs came meanwhile")
    await stack.until_ended(connection, run_id)
    connection.close()


async def _runs_come(stack: HttpStack, seconds: float) -> int:
    connection = await HttpConnection.open(stack.port)
    count, began = 0, time.perf_counter()
    while (now := time.perf_counter() - began) < seconds:
        await asyncio.sleep(max(0.0, count / _RUNS_PER_SEC - now))
        await stack.submit_flow(connection, "noop", number=count)
        count += 1
    connection.close()
    return count
