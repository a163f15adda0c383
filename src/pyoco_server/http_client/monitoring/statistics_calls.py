"""The call that reads statistics: a method of both clients."""

from __future__ import annotations

from typing import Literal

from pyoco_server.http_client import client_endpoints as api
from pyoco_server.http_client.call_types import Request, call, given
from pyoco_server.http_client.response_types import Statistics

Period = Literal["1h", "24h", "7d", "30d"]


def statistics(
    period: Period | None = None, *, flow: str | None = None, tag: str | None = None
) -> Request[Statistics]:
    """The runs that ended in a period (24h unless given), and in the period before: rates and durations.

    In total, per bucket of time, per flow and per tag; of one `flow` or one `tag` if given.
    """
    return call(api.STATISTICS, given(period=period, flow=flow, tag=tag))
