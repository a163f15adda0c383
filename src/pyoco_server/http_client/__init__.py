"""The client library: the HTTP API as method calls.

    with PyocoHttpClient("http://127.0.0.1:8000") as client:
        print(client.run("greet", name="Ada"))

AsyncPyocoHttpClient has the same methods for programs with an event loop.

A response of 4xx or 5xx raises PyocoHttpError, a gateway that does not respond raises GatewayUnreachable, and
`run` raises RunFailed for a run that is not COMPLETED. An address, API key or idempotency key that cannot be
sent is a ValueError; a name that no URL can have (`.` and `..`) raises InvalidRequest.
"""

from typing import TYPE_CHECKING

from pyoco_server.http_client.client_errors import GatewayUnreachable, PyocoHttpError, RunFailed
from pyoco_server.http_client.filter_params import (
    AuditFilter,
    BulkConsent,
    HookFilter,
    LetterFilter,
    LogFilter,
    RunFilter,
    RunListing,
    ScheduleFilter,
    WaitFilter,
)
from pyoco_server.http_client.sync_client import PyocoHttpClient

if TYPE_CHECKING:
    from pyoco_server.http_client.async_client import AsyncPyocoHttpClient

__all__ = [
    "AsyncPyocoHttpClient",
    "AuditFilter",
    "BulkConsent",
    "GatewayUnreachable",
    "HookFilter",
    "LetterFilter",
    "LogFilter",
    "PyocoHttpClient",
    "PyocoHttpError",
    "RunFailed",
    "RunFilter",
    "RunListing",
    "ScheduleFilter",
    "WaitFilter",
]


def __getattr__(name: str) -> object:
    """Import the asynchronous client on first use: commands start faster without asyncio."""
    if name == "AsyncPyocoHttpClient":
        from pyoco_server.http_client.async_client import AsyncPyocoHttpClient  # noqa: PLC0415

        return AsyncPyocoHttpClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
