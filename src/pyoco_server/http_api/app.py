"""The app: routes, error answers, and the gateway's life."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from pyoco_server import __version__
from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api import (
    bulk,
    dlq,
    explain,
    health,
    list_watch,
    metrics,
    overview,
    problems,
    reruns,
    run_actions,
    run_list,
    run_logs,
    run_reads,
    run_watch,
    wait_answers,
    wait_watch,
    waits,
    wheels,
    workers,
)
from pyoco_server.http_api.authentication import Authenticate
from pyoco_server.http_api.dashboard import Dashboard
from pyoco_server.http_api.gateway import Gateway
from pyoco_server.http_api.openapi import describe
from pyoco_server.http_api.origin_check import CheckOrigin
from pyoco_server.http_api.rate_limits import LimitRate
from pyoco_server.http_api.request_counts import CountRequests
from pyoco_server.http_api.security_headers import SecurityHeaders
from pyoco_server.http_api.short_way import ShortWay
from pyoco_server.http_api.submissions import submit_run, submit_run_yaml


def create_app(config: NatsBackendConfig | None = None) -> FastAPI:
    """The gateway as an ASGI app; settings come from the environment unless given."""
    config = config or NatsBackendConfig.from_env()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        gateway = Gateway.create(config)
        app.state.gateway = gateway
        await gateway.start()
        try:
            yield
        finally:
            await gateway.close()

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
    app.include_router(health.router)
    app.include_router(run_list.router)
    # Before `/runs/{run_id}`, which would take `watch` for the id of a run.
    app.include_router(list_watch.router)
    app.include_router(run_watch.router)
    app.include_router(run_reads.router)
    app.include_router(run_logs.router)
    app.include_router(run_actions.router)
    app.include_router(reruns.router)
    app.include_router(explain.router)
    # Before `/waits/{wait_id}`, which would take `watch` for the id of a wait.
    app.include_router(wait_watch.router)
    app.include_router(waits.router)
    app.include_router(wait_answers.router)
    app.include_router(dlq.router)
    app.include_router(bulk.router)
    app.include_router(workers.router)
    app.include_router(metrics.router)
    app.include_router(overview.router)
    app.include_router(wheels.router)
    dashboard = Dashboard(config)
    app.add_route("/", dashboard.index, methods=["GET"])
    app.add_route("/static/{path:path}", dashboard.file, methods=["GET"])
    describe(app, config)
    return app
