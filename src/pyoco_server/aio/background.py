"""Work that goes on in the background until its owner cancels it, whatever happens on the way."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

_PAUSE_SEC = 1.0


async def repeat(what: str, step: Callable[[], Awaitable[None]]) -> None:
    """Take the step again and again; one that fails in an unforeseen way is logged, not the last."""
    while True:
        try:
            await step()
        except Exception:
            log.exception("%s met an unforeseen error and goes on", what)
            await asyncio.sleep(_PAUSE_SEC)
