"""`pyoco-client templates`: what workflow events start."""

from typing import Annotated, Any

import typer

from pyoco_server.cli.options.client_options import (
    AllPages,
    Limit,
    OutputOption,
    client_command,
    listed,
)
from pyoco_server.cli.options.shared_options import one_of, option, text_option
from pyoco_server.cli.options.trigger_options import SampleJson, checked_template_id, sample_object
from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.console import pairs, show
from pyoco_server.cli.views.workflow_event_views import template_view, templates_view, tested_template_view
from pyoco_server.errors import InvalidCliArgument
from pyoco_server.http_client import PyocoHttpClient
from pyoco_server.records.triggers.trigger_models import TemplateOverlap, TriggerKind

TemplateIdArgument = Annotated[
    str, typer.Argument(help="The id of the template.", metavar="TEMPLATE_ID", parser=checked_template_id)
]
_STARTS = [kind for kind in TriggerKind if kind is not TriggerKind.AFTER_PREVIOUS]


def template_fields(
    *,
    name: Annotated[str | None, text_option("Its name.")] = None,
    action: Annotated[
        str | None, text_option("The action of its first step; events may name it.", "KEY")
    ] = None,
    trigger: Annotated[
        str | None,
        option(
            f"What starts it: {', '.join(_STARTS)} (default: {TriggerKind.EXTERNAL_EVENT}, the only one that "
            "this server starts; the others are noted).",
            "KIND",
            parser=one_of(TriggerKind, str.lower),
            autocompletion=lambda: list(_STARTS),
        ),
    ] = None,
    then: Annotated[
        list[str] | None,
        text_option(
            "The action of a further step, which is noted and not executed; repeatable.", "KEY", "--then"
        ),
    ] = None,
    year: Annotated[int | None, option("The year of events that name none; 0: none.", "YEAR")] = None,
    month: Annotated[int | None, option("The month of events that name none; 0: none.", "MONTH")] = None,
    mfcloud_url: Annotated[
        str | None, text_option("The mfcloud_url of events that have none.", "URL")
    ] = None,
    notes: Annotated[str | None, text_option("The notes of events that have none.", "TEXT")] = None,
    overlap: Annotated[
        str | None,
        option(
            f"While a run of the template is open: {', '.join(TemplateOverlap)}.",
            "POLICY",
            parser=one_of(TemplateOverlap, str.lower),
            autocompletion=lambda: list(TemplateOverlap),
        ),
    ] = None,
) -> dict[str, Any]:
    """The given fields of a template."""
    fields = {
        "name": name,
        "action": action,
        "trigger_kind": trigger,
        "then": then or None,
        "year": year,
        "month": month,
        "mfcloud_url": mfcloud_url,
        "notes": notes,
        "overlap": overlap,
    }
    return {name: value for name, value in fields.items() if value is not None}


@client_command("pyoco-client templates list", "pyoco-client templates list --search close --output json")
def list_templates(
    client: PyocoHttpClient,
    *,
    search: Annotated[
        str | None, text_option("Only templates with this text in id, name, notes or actions.", "TEXT")
    ] = None,
    limit: Limit = None,
    all_pages: AllPages = False,
    output: OutputOption = None,
) -> None:
    found = listed(lambda size: client.iter_templates(size, search=search), limit, all_pages)
    show(found, output, templates_view)


@client_command("pyoco-client templates get monthly-close")
def get(client: PyocoHttpClient, template_id: TemplateIdArgument, *, output: OutputOption = None) -> None:
    show(client.get_template(template_id), output, template_view)


@client_command(
    'pyoco-client templates create monthly-close --name "Monthly close" --action close_month',
    "pyoco-client templates create close --name Close --action close_month --year 2026 --month 11 --overlap "
    "forbid",
    fields=template_fields,
)
def create(
    client: PyocoHttpClient,
    template_id: TemplateIdArgument,
    *,
    fields: dict[str, Any],
    output: OutputOption = None,
) -> None:
    if not fields.keys() >= {"name", "action"}:
        raise InvalidCliArgument("a template needs --name and --action")
    first = {
        "action": fields.pop("action"),
        "trigger_kind": fields.pop("trigger_kind", TriggerKind.EXTERNAL_EVENT),
    }
    steps = [first, *_further(fields.pop("then", []))]
    saved = client.save_template(fields.pop("name"), steps, id=template_id, **fields)
    show(saved["template"], output, template_view)


@client_command(
    "pyoco-client templates update monthly-close --month 12",
    "pyoco-client templates update monthly-close --action close_books --then send_report",
    fields=template_fields,
)
def update(
    client: PyocoHttpClient,
    template_id: TemplateIdArgument,
    *,
    fields: dict[str, Any],
    output: OutputOption = None,
) -> None:
    if not fields:
        raise InvalidCliArgument("say what changes, such as --name, --action or --month")
    stored = client.get_template(template_id)
    first, *others = stored["steps"]
    of_first = fields.keys() & {"action", "trigger_kind"}
    changes = {name: fields.pop(name) for name in of_first}
    further = _further(fields.pop("then")) if "then" in fields else others
    kept = {name: stored[name] for name in ("year", "month", "mfcloud_url", "notes", "overlap")}
    saved = client.save_template(
        fields.pop("name", stored["name"]),
        [{**first, **changes}, *further],
        base_updated_at=stored["updated_at"],
        id=template_id,
        **{**kept, **fields},
    )
    show(saved["template"], output, template_view)


@client_command("pyoco-client templates delete monthly-close")
def delete(client: PyocoHttpClient, template_id: TemplateIdArgument, *, output: OutputOption = None) -> None:
    deleted = client.delete_template(template_id)
    show(deleted, output, lambda it: pairs([("id", it["id"]), ("deleted", localized("yes"))]))


@client_command(
    """pyoco-client templates test monthly-close --json '{"year": 2026, "month": 11}'""",
    "pyoco-client templates test monthly-close --json @event.json",
)
def preview(
    client: PyocoHttpClient,
    template_id: TemplateIdArgument,
    *,
    json_text: SampleJson = None,
    output: OutputOption = None,
) -> None:
    show(client.preview_template(template_id, sample_object(json_text)), output, tested_template_view)


def _further(actions: list[str]) -> list[dict[str, Any]]:
    return [{"action": action, "trigger_kind": TriggerKind.AFTER_PREVIOUS} for action in actions]
