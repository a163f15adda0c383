"""The app: middleware, routes, error responses, and the lifespan of the gateway.

Importing a module of routes binds its handlers to their endpoints.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.routing import WebSocketRoute

from pyoco_server.api.endpoints.agent.request_endpoints import FOLLOW_REQUEST, FOLLOW_REQUEST_WS
from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api import mcp_routes, openapi  # noqa: F401
from pyoco_server.http_api.gateway import Gateway
from pyoco_server.http_api.metrics import metrics_routes  # noqa: F401
from pyoco_server.http_api.middleware.audit_recording import AuditMiddleware
from pyoco_server.http_api.middleware.authentication import AuthenticationMiddleware
from pyoco_server.http_api.middleware.origin_check import OriginMiddleware
from pyoco_server.http_api.middleware.query_tokens import QueryTokenMiddleware
from pyoco_server.http_api.middleware.rate_limits import RateLimitMiddleware
from pyoco_server.http_api.middleware.request_counts import RequestCountMiddleware
from pyoco_server.http_api.middleware.security_headers import SecurityHeadersMiddleware
from pyoco_server.http_api.middleware.submit_fast_path import SubmitFastPath
from pyoco_server.http_api.middleware.trusted_proxies import TrustedProxiesMiddleware
from pyoco_server.http_api.responses import http_problems as problems
from pyoco_server.http_api.routes import dashboard_routes, health_routes, key_routes, overview_routes  # noqa: F401
from pyoco_server.http_api.routes.agent import request_routes  # noqa: F401
from pyoco_server.http_api.routes.monitoring import (  # noqa: F401
    alert_routes,
    audit_routes,
    statistics_routes,
)
from pyoco_server.http_api.routes.runs import (  # noqa: F401
    artifact_routes,
    bulk_routes,
    dlq_routes,
    result_routes,
    run_list_routes,
    run_log_routes,
    run_routes,
    view_routes,
)
from pyoco_server.http_api.routes.runs.submit_routes import submit_run
from pyoco_server.http_api.routes.schedules import schedule_routes  # noqa: F401
from pyoco_server.http_api.routes.triggers import hook_routes, workflow_event_routes, workflow_template_routes  # noqa: F401
from pyoco_server.http_api.routes.waits import signal_routes, wait_routes  # noqa: F401
from pyoco_server.http_api.routes.workers import (  # noqa: F401
    flow_routes,
    wheel_routes,
    worker_routes,
)
from pyoco_server.http_api.routing import routes
from pyoco_server.http_api.streams import list_watch_routes, run_watch_routes, wait_watch_routes  # noqa: F401
from pyoco_server.http_api.streams.request_log_socket import follow_run


def create_app(config: NatsBackendConfig | None = None) -> Starlette:
    """The gateway as an ASGI app; settings come from the environment unless given."""
    config = config or NatsBackendConfig.from_env()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        app.state.gateway = gateway = Gateway(config)
        async with gateway.running():
            yield

    sockets = [WebSocketRoute(each.path, follow_run) for each in (FOLLOW_REQUEST, FOLLOW_REQUEST_WS)]
    app = Starlette(routes=[*routes(), *sockets], lifespan=lifespan)
    app.router.redirect_slashes = False
    problems.install(app)
    # Each is outside of those before it: rejected requests are counted too.
    app.add_middleware(SubmitFastPath, handler=submit_run)
    if config.http_rate_limit:
        app.add_middleware(
            RateLimitMiddleware, per_sec=config.http_rate_limit, burst=config.http_rate_limit_burst
        )
    if config.http_auth_mode == "api_key":
        app.add_middleware(
            AuthenticationMiddleware,
            header=config.http_api_key_header,
            operator_tenant=config.http_operator_tenant,
        )
        app.add_middleware(AuditMiddleware, keys_required=True)
    else:
        # Inside of the check: pages of others write no entries.
        app.add_middleware(AuditMiddleware, keys_required=False)
        app.add_middleware(
            OriginMiddleware,
            allowed_hosts=config.http_allowed_hosts,
            hook_hosts=config.hook_hosts,
            has_event_token=bool(config.workflow_event_token),
        )
    app.add_middleware(RequestCountMiddleware)
    app.add_middleware(SecurityHeadersMiddleware)
    if config.http_trusted_proxies:
        app.add_middleware(TrustedProxiesMiddleware, trusted=config.http_trusted_proxies)
    app.add_middleware(QueryTokenMiddleware)
    return app
