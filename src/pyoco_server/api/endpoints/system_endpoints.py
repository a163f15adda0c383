"""Endpoints of the gateway itself: health, metrics, statistics, the rights of a key, the dashboard."""

from typing import Any, Final

from pyoco_server.api import health_types, overview_types
from pyoco_server.api.endpoints.endpoint import Body, Endpoint
from pyoco_server.api.endpoints.endpoint_errors import INDEX_READ_ERRORS, NATS
from pyoco_server.api.endpoints.endpoint_scopes import ANY_KEY, PUBLIC, READ, READ_OR_OPERATE
from pyoco_server.api.statistics_types import Statistics, StatisticsQuery
from pyoco_server.errors.error_table import Err

METRICS_TEXT: Final = "text/plain; version=0.0.4"

HEALTH = Endpoint(
    "GET /health",
    PUBLIC,
    "The health of the gateway, also without NATS; its details need a key where keys are required. "
    "With `ready=1` a 503 until it is fully ready.",
    health_types.Health,
    (Err.INVALID_REQUEST,),
    query=health_types.HealthQuery,
    optional_key=True,
    also={503: "Only with `ready=1`: not ready yet."},
    head=True,
)
GET_KEY = Endpoint(
    "GET /key",
    ANY_KEY,
    "What the key of the request may do: its tenant, its scopes and the endpoints that it may use.",
    health_types.KeyAccess,
    (Err.INVALID_REQUEST,),
)
MCP = Endpoint(
    "POST /mcp",
    ANY_KEY,
    "The tools for agents: one message of the Model Context Protocol (streamable HTTP, stateless).",
    {"type": "object", "description": "The JSON-RPC response to the message."},
    (Err.INVALID_REQUEST,),
    Body(dict[str, Any]),
    also={
        202: "The message was a notification; without content.",
        400: "It is not one message of the protocol, or of a version that is not known: a JSON-RPC error.",
        404: "The method does not exist: a JSON-RPC error, in the protocol 2026-07-28.",
        406: "The client does not accept JSON: a JSON-RPC error.",
    },
    not_audited="Each call of a tool is a request of its own, and audited as such.",
)
METRICS = Endpoint(
    "GET /metrics",
    READ_OR_OPERATE,
    "All metrics in Prometheus' text format; 503 while NATS is unreachable.",
    {"type": "string", "description": "Prometheus' text format."},
    (NATS,),
    any_query=True,
    media_type=METRICS_TEXT,
)
OVERVIEW = Endpoint(
    "GET /overview",
    READ,
    "Runs by status, recently ended runs, queues, workers and firing alerts.",
    overview_types.Overview,
    INDEX_READ_ERRORS,
    query=overview_types.OverviewQuery,
)
STATISTICS = Endpoint(
    "GET /statistics",
    READ,
    "Throughput, success rate, durations and times in the queue of the runs that ended in a period, and in "
    "the period before: in total, over time, per flow and per tag.",
    Statistics,
    INDEX_READ_ERRORS,
    query=StatisticsQuery,
)
OPENAPI = Endpoint("GET /openapi.json", PUBLIC, "This document.", any_query=True, head=True, in_schema=False)
DASHBOARD = Endpoint("GET /", PUBLIC, "The dashboard.", any_query=True, head=True, in_schema=False)
DOCS = Endpoint("GET /docs", PUBLIC, "The reference of the API.", any_query=True, head=True, in_schema=False)
DASHBOARD_FILE = Endpoint(
    "GET /static/{path:path}", PUBLIC, "A file of the dashboard.", any_query=True, head=True, in_schema=False
)
