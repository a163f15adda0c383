"""A write whose acknowledgement did not come may have been stored all the same: then the leader is asked."""

import asyncio
from collections.abc import Awaitable
from typing import Final, TypeVar

from pyoco_server.errors import NatsUnavailable

T = TypeVar("T")

# Ample where NATS answers at all; what waits for it has waited for a whole request before.
_LOOK_AGAIN_SEC: Final = 0.3


async def look_again(read: Awaitable[T], failure: NatsUnavailable) -> T:
    """What is stored after a write that failed so; raises that failure where it cannot be found out."""
    try:
        async with asyncio.timeout(_LOOK_AGAIN_SEC):
            return await read
    except (NatsUnavailable, TimeoutError):
        raise failure from None
