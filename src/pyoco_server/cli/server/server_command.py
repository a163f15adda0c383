"""`pyoco-server`: the table of its commands. Each is imported when it is called."""

import os

from pyoco_server.cli.entry import Version, run
from pyoco_server.cli.lazy_group import Command, new_lazy_app
from pyoco_server.cli.options.shared_options import DashboardLang

COMMANDS = {
    "up": Command("Start the gateway; it serves until Ctrl-C or SIGTERM.", "up_command:up"),
    "dev": Command(
        "Run NATS, a gateway and a worker together on this machine, until Ctrl-C or SIGTERM.",
        "dev_command:dev",
    ),
    "agent": Command(
        "Serve agent requests of a Git repository: NATS, a gateway, the dashboard and a worker.",
        "agent_command:agent",
    ),
}

app = new_lazy_app(
    COMMANDS,
    "pyoco_server.cli.server",
    help="Start a pyoco-server gateway, or a complete stack on one machine.",
    examples=(
        "pyoco-server dev --flows ./flows",
        "pyoco-server up --with-nats-bootstrap",
        "pyoco-server agent --repo ../my-project",
    ),
)


@app.callback()
def server(version: Version = False, dashboard_lang: DashboardLang = None) -> None:
    # Of either command; the same option after the command takes precedence.
    if dashboard_lang is not None:
        os.environ["PYOCO_DASHBOARD_LANG"] = dashboard_lang


def main() -> None:
    run(app, "pyoco-server")


if __name__ == "__main__":
    main()
