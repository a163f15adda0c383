"""`pyoco-server-admin`: the table of its commands. Each is imported when it is called."""

import logging

import typer

from pyoco_server.cli.entry import Version, run
from pyoco_server.cli.lazy_group import Command, CommandGroup, new_lazy_app

COMMANDS: dict[str, Command | CommandGroup] = {
    "api-key": CommandGroup(
        "Create and revoke API keys for gateways that run with PYOCO_HTTP_AUTH_MODE=api_key.",
        (
            "pyoco-server-admin api-key create --tenant acme --scopes submit,read",
            "pyoco-server-admin api-key list",
        ),
        {
            "create": Command(
                "Create a key and print it. It is shown only once: only its hash is stored.",
                "api_key_command:create",
            ),
            "list": Command("List keys, newest first, without their secrets.", "api_key_command:list_keys"),
            "revoke": Command(
                "Revoke a key permanently; every gateway rejects it within a second.",
                "api_key_command:revoke",
            ),
            "rotate": Command(
                "Give a key a new secret and print it once. Its id, tenant and scopes stay.",
                "api_key_command:rotate",
            ),
        },
    ),
    "adopt": Command(
        "Take over the NATS data of the public package 0.5, or of an earlier version of this one.",
        "adopt_command:adopt",
    ),
    "nats-config": Command(
        "Print the accounts and users of a nats-server for this installation, with least privilege.",
        "nats_config_command:nats_config",
    ),
    "nats-setup": Command(
        "Create the streams, buckets and queues of the tags; existing ones keep the options that work.",
        "nats_setup_command:nats_setup",
    ),
    "secrets": CommandGroup(
        "Make and change the keys that stored secrets of hooks are encrypted with (PYOCO_SECRETS_KEYS).",
        (
            "pyoco-server-admin secrets create-key",
            "pyoco-server-admin secrets rotate",
        ),
        {
            "create-key": Command("Print a new key. It is not stored.", "secrets_command:create_key"),
            "rotate": Command(
                "Encrypt all stored secrets again with the first key, after every gateway has it.",
                "secrets_command:rotate",
            ),
        },
    ),
    "unreadable": Command(
        "List stored records that cannot be read, or remove them.", "unreadable_command:unreadable"
    ),
}

app = new_lazy_app(
    COMMANDS,
    "pyoco_server.cli.admin",
    help="Administer API keys, NATS users and stored records. Needs the gateway's settings.",
    examples=(
        "pyoco-server-admin api-key create --tenant acme --scopes submit,read",
        "pyoco-server-admin api-key list",
        "pyoco-server-admin nats-config --file pyoco-users.conf",
    ),
)


@app.callback()
def admin(ctx: typer.Context, version: Version = False) -> None:
    # The command reports an error itself; without a handler, Python would print its log lines as well.
    logging.getLogger("pyoco_server").addHandler(logging.NullHandler())


def main() -> None:
    run(app, "pyoco-server-admin")


if __name__ == "__main__":
    main()
