"""`pyoco-server-admin`: what the person who runs the server does, beside it and with its settings."""

import logging

import typer

from pyoco_server.cli.admin import api_key_command as admin_keys
from pyoco_server.cli.admin import nats_config_command as nats_config
from pyoco_server.cli.admin import nats_setup_command as nats_setup
from pyoco_server.cli.entry import Version, examples, new_app, run

app = new_app(
    no_args_is_help=True,
    help="Administer a pyoco-server: its API keys, and its users of NATS. Needs the gateway's settings.",
    epilog=examples(
        "pyoco-server-admin api-key create --tenant acme --scopes submit,read",
        "pyoco-server-admin api-key list",
        "pyoco-server-admin nats-config --file pyoco-users.conf",
    ),
)


@app.callback()
def admin(ctx: typer.Context, version: Version = False) -> None:
    # What goes wrong is told once, by the command itself.
    logging.getLogger("pyoco_server").addHandler(logging.NullHandler())


app.add_typer(admin_keys.app, name="api-key")
app.command(epilog=nats_config.EPILOG)(nats_config.nats_config)
app.command(epilog=nats_setup.EPILOG)(nats_setup.nats_setup)


def main() -> None:
    run(app, "pyoco-server-admin")


if __name__ == "__main__":
    main()
