"""What a shell offers after Tab for the name of a flow, and for its params; nothing without a gateway."""

import json
from collections.abc import Callable
from typing import Any, Final, TypeVar

import typer

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import PyocoError
from pyoco_server.http_client import GatewayUnreachable, PyocoHttpClient, PyocoHttpError

T = TypeVar("T")

# A shell waits for it.
_TIMEOUT_SEC: Final = 2.0
_MOST_NAMES: Final = 1000


def complete_flow(ctx: typer.Context, incomplete: str) -> list[str]:
    page = _read(ctx, lambda client: client.list_flows(limit=_MOST_NAMES))
    return [flow["name"] for flow in page["flows"] if flow["name"].startswith(incomplete)] if page else []


def complete_param(ctx: typer.Context, incomplete: str) -> list[str]:
    """`name=` for each parameter of the flow; behind the `=`, the values of an enumeration."""
    # Click parses no further than the option that is being completed: the name of the flow is left over.
    flow_name = ctx.params.get("flow") or next(iter(ctx.args), None)
    if not flow_name:
        return []
    flow = _read(ctx, lambda client: client.get_flow(flow_name))
    properties = (flow["parameters"] or {}).get("properties", {}) if flow else {}
    name, equals, _ = incomplete.partition("=")
    if not equals:
        return [f"{each}=" for each in properties if each.startswith(incomplete)]
    choices = [f"{name}={_text(each)}" for each in _choices(properties.get(name, {}))]
    return [each for each in choices if each.startswith(incomplete)]


def _choices(schema: dict[str, Any]) -> list[Any]:
    return [True, False] if schema.get("type") == "boolean" else schema.get("enum", [])


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _read(ctx: typer.Context, read: Callable[[PyocoHttpClient], T]) -> T | None:
    """The address is that of the command line so far; its callback has not been called."""
    server, api_key = (
        ctx.params.get(name) or ctx.find_root().params.get(name) for name in ("server", "api_key")
    )
    try:
        config = NatsBackendConfig.from_env()
        with PyocoHttpClient(
            server or config.server,
            api_key=api_key or config.api_key or None,
            api_key_header=config.http_api_key_header,
            timeout=_TIMEOUT_SEC,
            retries=0,
        ) as client:
            return read(client)
    except (GatewayUnreachable, PyocoHttpError, PyocoError, ValueError):
        # A shell has no place for an error.
        return None
