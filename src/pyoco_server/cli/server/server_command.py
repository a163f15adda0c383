"""`pyoco-server`: the gateway (`up`), and everything together on one machine (`dev`)."""

from pathlib import Path
from typing import Annotated

import typer

from pyoco_server.cli.entry import Version, examples, new_app, run
from pyoco_server.cli.options.common_options import NatsUrl, service_settings
from pyoco_server.cli.server.dev_command import Screen, serve_dev
from pyoco_server.cli.server.dev_stack import USUAL_DATA_DIR, DevOptions, dev_settings
from pyoco_server.cli.server.listening import USUAL_PORT
from pyoco_server.cli.server.readiness import ReadyFd
from pyoco_server.cli.server.serving import serve
from pyoco_server.cli.server.up_command import Up
from pyoco_server.cli.views.console import results
from pyoco_server.errors import InvalidCliArgument
from pyoco_server.telemetry.logging_config import configure_logging
from pyoco_server.telemetry.tracing import tracing

app = new_app(
    no_args_is_help=True,
    help="Run Pyoco flows durably: the gateway, or everything on one machine.",
    epilog=examples("pyoco-server dev --flows ./flows", "pyoco-server up --with-nats-bootstrap"),
)

Host = Annotated[str, typer.Option(help="The address to listen on.", metavar="ADDRESS")]
DashboardLang = Annotated[
    str | None,
    typer.Option(help="The dashboard's language: auto, ja or en (PYOCO_DASHBOARD_LANG).", metavar="LANG"),
]


@app.callback()
def server(version: Version = False) -> None:
    pass


@app.command(
    epilog=examples(
        "pyoco-server up",
        "pyoco-server up --host 0.0.0.0 --port 8080 --nats-url nats://10.0.0.5:4222",
        "pyoco-server up --with-nats-bootstrap --nats-data-dir /var/lib/pyoco",
    )
)
def up(
    *,
    host: Host = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="0 takes a free one.", metavar="PORT", min=0, max=65535)
    ] = USUAL_PORT,
    nats_url: NatsUrl = None,
    with_nats_bootstrap: Annotated[
        bool,
        typer.Option(
            "--with-nats-bootstrap", help="Start a NATS server as well, for this machine.", metavar=""
        ),
    ] = False,
    nats_port: Annotated[
        int | None,
        typer.Option(
            help="The port of that server; default: that of PYOCO_NATS_URL.", metavar="PORT", min=1, max=65535
        ),
    ] = None,
    nats_data_dir: Annotated[
        Path | None,
        typer.Option(
            help="Where that server keeps its data (PYOCO_NATS_DATA_DIR; .pyoco/nats).", metavar="DIR"
        ),
    ] = None,
    dashboard_lang: DashboardLang = None,
    ready_fd: ReadyFd = None,
) -> None:
    """Start the gateway; it serves until Ctrl-C or SIGTERM."""
    if with_nats_bootstrap and nats_url:
        raise InvalidCliArgument(
            "--nats-url names a server that runs already; leave it or --with-nats-bootstrap out"
        )
    if not with_nats_bootstrap and (nats_port or nats_data_dir):
        raise InvalidCliArgument("--nats-port and --nats-data-dir need --with-nats-bootstrap")
    config = service_settings(
        nats_url=nats_url, nats_data_dir=nats_data_dir and str(nats_data_dir), dashboard_lang=dashboard_lang
    )
    configure_logging(service="pyoco-server:http", config=config)
    gateway = Up(
        config=config,
        host=host,
        port=port,
        with_nats=with_nats_bootstrap,
        nats_port=nats_port,
        ready_fd=ready_fd,
    )
    with tracing(config, service="pyoco-server:http"):
        code = serve(gateway)
    raise typer.Exit(code)


@app.command(
    epilog=examples(
        "pyoco-server dev --flows ./flows",
        "pyoco-server dev --flows ./flows --port 8080 --concurrency 4",
    )
)
def dev(
    *,
    flows: Annotated[
        Path | None,
        typer.Option(help="A folder of flows: *.py and *.yaml.", metavar="DIR", exists=True, file_okay=False),
    ] = None,
    host: Host = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            help="The gateway's port (default: 8000, or a free one).", metavar="PORT", min=0, max=65535
        ),
    ] = None,
    nats_port: Annotated[
        int | None,
        typer.Option(
            help="The port of NATS (default: 4222, or a free one).", metavar="PORT", min=0, max=65535
        ),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="Where NATS, the index, runs, wheels and logs keep their files (default: .pyoco).",
            metavar="DIR",
            file_okay=False,
        ),
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(help="How many runs at once (PYOCO_WORKER_CONCURRENCY; 1).", metavar="N", min=1),
    ] = None,
) -> None:
    """Run NATS, a gateway and a worker together on this machine, until Ctrl-C or SIGTERM."""
    config = dev_settings(data_dir, worker_concurrency=concurrency)
    log_dir = (data_dir or USUAL_DATA_DIR) / "logs"
    options = DevOptions(
        config=config, flows=flows, host=host, port=port, nats_port=nats_port, log_dir=log_dir
    )
    raise typer.Exit(serve(lambda stop: serve_dev(options, stop, Screen(results()))))


def main() -> None:
    run(app, "pyoco-server")


if __name__ == "__main__":
    main()
