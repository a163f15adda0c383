"""The endpoint of statistics."""

from pyoco_server.api import statistics_types as types
from pyoco_server.api.endpoints.endpoint import Endpoint
from pyoco_server.api.endpoints.endpoint_errors import LIST_ERRORS
from pyoco_server.api.endpoints.endpoint_scopes import READ

STATISTICS = Endpoint(
    "GET /statistics",
    READ,
    "Throughput, success rate, durations and times in the queue of the runs that ended in a period, and in "
    "the period before: in total, over time, per flow and per tag.",
    types.Statistics,
    LIST_ERRORS,
    query=types.StatisticsQuery,
)
