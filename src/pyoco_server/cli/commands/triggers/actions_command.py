"""`pyoco-client actions`: the flows that workflow templates start."""

from typing import Annotated, Any

import typer

from pyoco_server.cli.options.client_options import OutputOption, client_command
from pyoco_server.cli.options.shared_options import text_option
from pyoco_server.cli.options.trigger_options import flow_binding
from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.console import pairs, show
from pyoco_server.cli.views.workflow_event_views import action_view, actions_view
from pyoco_server.http_client import PyocoHttpClient
from pyoco_server.records.triggers.trigger_models import ACTION_KEY_EXPECTED, is_action_key


def _checked_key(text: str) -> str:
    if not is_action_key(text):
        raise typer.BadParameter(f"{text!r}: {ACTION_KEY_EXPECTED}")
    return text


ActionKeyArgument = Annotated[
    str, typer.Argument(help="The key that templates name.", metavar="KEY", parser=_checked_key)
]


@client_command("pyoco-client actions list")
def list_actions(client: PyocoHttpClient, *, output: OutputOption = None) -> None:
    show(client.list_actions()["items"], output, actions_view)


@client_command("pyoco-client actions get close_month")
def get(client: PyocoHttpClient, key: ActionKeyArgument, *, output: OutputOption = None) -> None:
    show(client.get_action(key), output, action_view)


@client_command(
    "pyoco-client actions create close_month --flow-name close --tag finance --param region=emea",
    "pyoco-client actions create report --flow-name report --run-timeout-sec 600",
    binding=flow_binding,
)
def create(
    client: PyocoHttpClient,
    key: ActionKeyArgument,
    *,
    flow_name: Annotated[str, text_option("The flow that it starts.")],
    binding: dict[str, Any],
    output: OutputOption = None,
) -> None:
    show(client.save_action(key, flow_name, **binding)["action"], output, action_view)


@client_command("pyoco-client actions delete close_month")
def delete(client: PyocoHttpClient, key: ActionKeyArgument, *, output: OutputOption = None) -> None:
    deleted = client.delete_action(key)
    show(deleted, output, lambda it: pairs([("key", it["key"]), ("deleted", localized("yes"))]))
