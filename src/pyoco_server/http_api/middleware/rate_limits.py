"""No caller takes more than its share: a bucket of tokens for each, refilled at the rate that is allowed.

Each gateway counts for itself. A caller is an API key, or without keys an address; behind a proxy that is
the proxy's, for all of its clients together.
"""

import math
import time
from collections.abc import Callable
from typing import Final

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from pyoco_server.errors import RateLimited
from pyoco_server.http_api.middleware.principal import principal_of
from pyoco_server.http_api.responses.http_problems import problem_answer

# Those who look whether the gateway lives must always be told.
_FREE: Final = frozenset({"/health"})
_MOST_CALLERS: Final = 10_000


class TokenBuckets:
    """How many more requests each caller may make."""

    def __init__(self, *, per_sec: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_sec = per_sec
        self._burst = float(burst)
        self._clock = clock
        # When each caller's bucket was last looked at, and what was in it; the longest unused one is first.
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, caller: str) -> float:
        """Take one token: 0 when there was one, else in how many seconds there will be."""
        now = self._clock()
        seen, tokens = self._buckets.pop(caller, (now, self._burst))
        tokens = min(self._burst, tokens + (now - seen) * self._per_sec)
        wait = 0.0 if tokens >= 1 else (1 - tokens) / self._per_sec
        self._buckets[caller] = (now, tokens if wait else tokens - 1)
        if len(self._buckets) > _MOST_CALLERS:
            # Who was not heard of for the longest time has the fullest bucket.
            del self._buckets[next(iter(self._buckets))]
        return wait


class LimitRate:
    """The middleware; inside authentication, so that it knows the key."""

    def __init__(self, app: ASGIApp, *, per_sec: float, burst: int) -> None:
        self._app = app
        self._per_sec = per_sec
        self._buckets = TokenBuckets(per_sec=per_sec, burst=burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in _FREE:
            request = Request(scope, receive)
            caller, who = _caller_of(request)
            wait = self._buckets.take(caller)
            if wait:
                refusal = RateLimited(f"{who} may make {self._per_sec:g} requests a second")
                refusal.headers["Retry-After"] = str(math.ceil(wait))
                await problem_answer(request, refusal)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _caller_of(request: Request) -> tuple[str, str]:
    """The caller, and what it is called in words."""
    principal = principal_of(request)
    if principal is not None:
        return f"key {principal.key_id}", "one API key"
    return f"address {request.client.host if request.client else ''}", "one address"
