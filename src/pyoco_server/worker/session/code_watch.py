"""Notices that a worker's flow folder has changed, so that the next run uses the new code."""

import asyncio
import logging
from collections.abc import Sequence

from pyoco_server.aio.background import repeat
from pyoco_server.worker.executors.executor import Executor
from pyoco_server.worker.flows.flow_files import FlowFolder

log = logging.getLogger(__name__)

_LOOK_EVERY_SEC = 1.0


async def watch_flow_folder(folder: str, executors: Sequence[Executor]) -> None:
    """Retire the executors whenever a file of the folder changes; runs under way finish as they began."""
    flows = FlowFolder(folder)
    known: str | None = None

    async def look() -> None:
        nonlocal known
        current = await asyncio.to_thread(flows.fingerprint)
        if known not in (None, current):
            log.info("the flows in %s have changed and are loaded anew", flows.path)
            for executor in executors:
                executor.retire()
        known = current
        await asyncio.sleep(_LOOK_EVERY_SEC)

    await repeat("the watch of the flows", look)
