"""Notices that a worker's flow folder has changed, so that the next run uses the new code."""

import asyncio
import logging
from collections.abc import Sequence

from pyoco_server.worker.executor import Executor
from pyoco_server.worker.flow_files import FlowFolder

log = logging.getLogger(__name__)

_LOOK_EVERY_SEC = 1.0


async def watch_flow_folder(folder: str, executors: Sequence[Executor]) -> None:
    """Retire the executors whenever a file of the folder changes; runs under way finish as they began."""
    flows = FlowFolder(folder)
    known = await asyncio.to_thread(flows.fingerprint)
    while True:
        await asyncio.sleep(_LOOK_EVERY_SEC)
        current = await asyncio.to_thread(flows.fingerprint)
        if current != known:
            known = current
            log.info("the flows in %s have changed and are loaded anew", flows.path)
            for executor in executors:
                executor.retire()
