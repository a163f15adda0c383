"""The app: routes, error answers, and the gateway's life."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.routing import Route

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.gateway import Gateway
from pyoco_server.http_api.metrics import metrics_routes as metrics
from pyoco_server.http_api.middleware.authentication import Authenticate
from pyoco_server.http_api.middleware.origin_check import CheckOrigin
from pyoco_server.http_api.middleware.rate_limits import LimitRate
from pyoco_server.http_api.middleware.request_counts import CountRequests
from pyoco_server.http_api.middleware.security_headers import SecurityHeaders
from pyoco_server.http_api.middleware.submit_fast_path import ShortWay
from pyoco_server.http_api.openapi import describe
from pyoco_server.http_api.responses import http_problems as problems
from pyoco_server.http_api.routes import bulk_routes as bulk
from pyoco_server.http_api.routes import cancel_routes as run_actions
from pyoco_server.http_api.routes import dlq_routes as dlq
from pyoco_server.http_api.routes import explain_routes as explain
from pyoco_server.http_api.routes import health_routes as health
from pyoco_server.http_api.routes import overview_routes as overview
from pyoco_server.http_api.routes import rerun_routes as reruns
from pyoco_server.http_api.routes import run_list_routes as run_list
from pyoco_server.http_api.routes import run_log_routes as run_logs
from pyoco_server.http_api.routes import run_routes as run_reads
from pyoco_server.http_api.routes import wait_answer_routes as wait_answers
from pyoco_server.http_api.routes import wait_routes as waits
from pyoco_server.http_api.routes import wheel_routes as wheels
from pyoco_server.http_api.routes import worker_routes as workers
from pyoco_server.http_api.routes.dashboard_routes import Dashboard
from pyoco_server.http_api.routes.submit_routes import submit_run, submit_run_yaml
from pyoco_server.http_api.streams import list_watch_routes as list_watch
from pyoco_server.http_api.streams import run_watch_routes as run_watch
from pyoco_server.http_api.streams import wait_watch_routes as wait_watch
from pyoco_server.version import __version__

# In the order in which they are matched: a literal path such as `/runs/watch` before `/runs/{run_id}`.
_ROUTERS = (
    health.router,
    run_list.router,
    list_watch.router,
    run_watch.router,
    run_reads.router,
    run_logs.router,
    run_actions.router,
    reruns.router,
    explain.router,
    wait_watch.router,
    waits.router,
    wait_answers.router,
    dlq.router,
    bulk.router,
    workers.router,
    metrics.router,
    overview.router,
    wheels.router,
)


def create_app(config: NatsBackendConfig | None = None) -> FastAPI:
    """The gateway as an ASGI app; settings come from the environment unless given."""
    config = config or NatsBackendConfig.from_env()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.gateway = gateway = Gateway(config)
        async with gateway.running():
            yield

    # The interactive pages load scripts from other hosts, which a self-hosted server must not.
    app = FastAPI(
        title="pyoco-server",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # Our traces are of runs; the framework's own would look for a place to go with each request.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    problems.install(app)
    # Each goes around those before it: counted is also what is refused.
    app.add_middleware(ShortWay, method="POST", path="/runs", endpoint=submit_run)
    if config.http_rate_limit:
        app.add_middleware(LimitRate, per_sec=config.http_rate_limit, burst=config.http_rate_limit_burst)
    if config.http_auth_mode == "api_key":
        app.add_middleware(Authenticate, header=config.http_api_key_header)
    else:
        app.add_middleware(CheckOrigin, allowed_hosts=config.http_allowed_hosts)
    app.add_middleware(CountRequests)
    app.add_middleware(SecurityHeaders)
    # First, since routes are tried in order and these are the hot ones.
    app.add_route("/runs", submit_run, methods=["POST"])
    app.add_route("/runs/yaml", submit_run_yaml, methods=["POST"])
    for router in _ROUTERS:
        app.include_router(router)
    dashboard = Dashboard(config)
    app.add_route("/", dashboard.index, methods=["GET"])
    app.add_route("/static/{path:path}", dashboard.file, methods=["GET"])
    included = [route for router in _ROUTERS for route in router.routes]
    app.state.routes = [route for route in (*app.routes, *included) if isinstance(route, Route)]
    describe(app, config)
    return app
