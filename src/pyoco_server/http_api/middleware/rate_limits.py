"""Rate limits: a token bucket per caller, in each gateway.

A caller is an API key, or without keys an address. Behind a proxy that is not trusted, that is the address of
the proxy.
"""

import time
from collections.abc import Callable
from typing import Final

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from pyoco_server.errors import RateLimited
from pyoco_server.http_api.middleware.principal import principal_of
from pyoco_server.http_api.responses.refusals import refuse

_UNLIMITED: Final = frozenset({"/health"})
_MAX_CALLERS: Final = 10_000
_COUNTED: Final = "pyoco.counted"


def mark_counted(scope: Scope) -> None:
    """Do not count this request: it is part of one that was counted."""
    scope[_COUNTED] = True


class TokenBuckets:
    def __init__(self, *, per_sec: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_sec = per_sec
        self._burst = float(burst)
        self._clock = clock
        # The time and the tokens of the last request; the longest unused bucket is first.
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, caller: str) -> float:
        """Take one token: 0, or the seconds until there is one."""
        now = self._clock()
        seen, tokens = self._buckets.pop(caller, (now, self._burst))
        tokens = min(self._burst, tokens + (now - seen) * self._per_sec)
        wait = 0.0 if tokens >= 1 else (1 - tokens) / self._per_sec
        self._buckets[caller] = (now, tokens if wait else tokens - 1)
        if len(self._buckets) > _MAX_CALLERS:
            # The longest unused bucket is the fullest.
            del self._buckets[next(iter(self._buckets))]
        return wait


class RateLimitMiddleware:
    """Inside authentication, which provides the key."""

    def __init__(self, app: ASGIApp, *, per_sec: float, burst: int) -> None:
        self._app = app
        self._per_sec = per_sec
        self._buckets = TokenBuckets(per_sec=per_sec, burst=burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan" and scope["path"] not in _UNLIMITED and _COUNTED not in scope:
            caller, kind = _caller_of(HTTPConnection(scope))
            wait = self._buckets.take(caller)
            if wait:
                error = RateLimited(f"{kind} may make {self._per_sec:g} requests a second")
                error.retry_after_sec = wait
                await refuse(error, scope, receive, send)
                return
        await self._app(scope, receive, send)


def _caller_of(request: HTTPConnection) -> tuple[str, str]:
    """The key of the bucket, and the kind of caller."""
    principal = principal_of(request)
    if principal is not None:
        return f"key {principal.key_id}", "one API key"
    return f"address {request.client.host if request.client else ''}", "one address"
