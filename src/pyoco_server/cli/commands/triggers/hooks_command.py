"""`pyoco-client hooks`: addresses whose deliveries start runs."""

from typing import Annotated, Any

import typer

from pyoco_server.cli.options.client_options import (
    AllPages,
    Limit,
    OutputOption,
    checked_key,
    client_command,
    listed,
)
from pyoco_server.cli.options.hook_options import HookIdArgument, KindOption, Revision, Tenant, hook_fields
from pyoco_server.cli.options.json_option import given_json
from pyoco_server.cli.options.shared_options import flag, option, text_option
from pyoco_server.cli.options.time_formats import parse_duration
from pyoco_server.cli.options.trigger_options import (
    Pair,
    SampleJson,
    by_name,
    flow_binding,
    pair_option,
    typed_secret,
)
from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.console import pairs, show
from pyoco_server.cli.views.hook_views import (
    deliveries_view,
    delivery_view,
    hook_view,
    hooks_view,
    new_secret_view,
    redelivered_view,
    tested_delivery_view,
)
from pyoco_server.errors import InvalidCliArgument
from pyoco_server.http_client import PyocoHttpClient
from pyoco_server.records.triggers.hook_models import DeliveryStatus

DeliveryIdArgument = Annotated[
    int, typer.Argument(help="The id shown by `hooks deliveries`.", metavar="DELIVERY_ID", min=1)
]


@client_command(
    "pyoco-client hooks list",
    "pyoco-client hooks list --kind github --search orders --output json",
)
def list_hooks(
    client: PyocoHttpClient,
    *,
    kind: KindOption = None,
    flow: Annotated[str | None, text_option("Only hooks of this flow.")] = None,
    search: Annotated[
        str | None, text_option("Only hooks with this text in their id, flow, labels or note.", "TEXT")
    ] = None,
    limit: Limit = None,
    all_pages: AllPages = False,
    output: OutputOption = None,
) -> None:
    found = listed(lambda size: client.iter_hooks(size, kind=kind, flow=flow, q=search), limit, all_pages)
    show(found, output, hooks_view)


@client_command("pyoco-client hooks get orders")
def get(
    client: PyocoHttpClient, hook_id: HookIdArgument, *, tenant: Tenant = None, output: OutputOption = None
) -> None:
    show(client.get_hook(hook_id, tenant=tenant), output, lambda hook: hook_view(hook, client.base_url))


@client_command(
    "pyoco-client hooks create orders --kind github --flow-name import --map order=/order/id",
    "pyoco-client hooks create paid --kind stripe --flow-name book --secret -",
    "pyoco-client hooks create sensors --kind nats --flow-name measure --tag edge",
    binding=flow_binding,
    fields=hook_fields,
)
def create(
    client: PyocoHttpClient,
    hook_id: HookIdArgument,
    *,
    kind: KindOption,
    flow_name: Annotated[str, text_option("The flow that a delivery starts.")],
    binding: dict[str, Any],
    fields: dict[str, Any],
    secret: Annotated[
        str | None,
        text_option(
            "The secret that the sender uses; - reads it from standard input. Stripe makes its own "
            "(default: one is made, and shown once).",
            "SECRET",
            envvar="PYOCO_HOOK_SECRET",
        ),
    ] = None,
    output: OutputOption = None,
) -> None:
    if secret is not None:
        fields["secret"] = typed_secret(secret)
    created = client.create_hook(hook_id, str(kind), flow_name, **binding, **fields)
    show(created, output, lambda hook: new_secret_view(hook, client.base_url, is_given=secret is not None))


@client_command(
    "pyoco-client hooks update orders --map order=/order/id --map shop=header:X-Shop",
    "pyoco-client hooks update orders --overlap skip --revision 3",
    binding=flow_binding,
    fields=hook_fields,
)
def update(
    client: PyocoHttpClient,
    hook_id: HookIdArgument,
    *,
    flow_name: Annotated[str | None, text_option("The flow that a delivery starts.")] = None,
    binding: dict[str, Any],
    fields: dict[str, Any],
    revision: Revision = None,
    tenant: Tenant = None,
    output: OutputOption = None,
) -> None:
    changes = {**binding, **fields, **({} if flow_name is None else {"flow_name": flow_name})}
    if not changes:
        raise InvalidCliArgument("say what changes, such as --map, --param or --overlap")
    changed = client.update_hook(hook_id, revision=revision, tenant=tenant, **changes)
    show(changed, output, lambda hook: hook_view(hook, client.base_url))


@client_command("pyoco-client hooks delete orders")
def delete(
    client: PyocoHttpClient,
    hook_id: HookIdArgument,
    *,
    revision: Revision = None,
    tenant: Tenant = None,
    output: OutputOption = None,
) -> None:
    deleted = client.delete_hook(hook_id, revision=revision, tenant=tenant)
    show(deleted, output, lambda it: pairs([("hook_id", it["hook_id"]), ("deleted", localized("yes"))]))


@client_command(
    "pyoco-client hooks rotate orders --keep 24h",
    "pyoco-client hooks rotate orders",
    "pyoco-client hooks rotate orders --finish",
)
def rotate(
    client: PyocoHttpClient,
    hook_id: HookIdArgument,
    *,
    keep: Annotated[
        float | None,
        option(
            "How long the old secret stays valid, such as 24h or 0s (default: until --finish).",
            "TIME",
            parser=parse_duration,
        ),
    ] = None,
    finish: Annotated[bool, flag("--finish", "End the old secret instead of making a new one.")] = False,
    secret: Annotated[
        str | None,
        text_option(
            "The new secret; - reads it from standard input (default: one is made).",
            "SECRET",
            envvar="PYOCO_HOOK_SECRET",
        ),
    ] = None,
    tenant: Tenant = None,
    output: OutputOption = None,
) -> None:
    if finish:
        if keep is not None or secret is not None:
            raise InvalidCliArgument("--finish makes no new secret; leave out --keep and --secret")
        finished = client.finish_hook_rotation(hook_id, tenant=tenant)
        show(finished, output, lambda hook: hook_view(hook, client.base_url))
        return
    given = None if secret is None else typed_secret(secret)
    rotated = client.rotate_hook(hook_id, secret=given, keep_sec=keep, tenant=tenant)
    show(rotated, output, lambda hook: new_secret_view(hook, client.base_url, is_given=given is not None))


@client_command(
    """pyoco-client hooks test orders --json '{"order": {"id": 7}}'""",
    "pyoco-client hooks test orders --json @delivery.json --header X-Shop=north",
)
def preview(
    client: PyocoHttpClient,
    hook_id: HookIdArgument,
    *,
    json_text: SampleJson = None,
    header: Annotated[list[Pair] | None, pair_option("A header of the sample", "NAME=VALUE")] = None,
    query: Annotated[list[Pair] | None, pair_option("A query parameter of it", "NAME=VALUE")] = None,
    tenant: Tenant = None,
    output: OutputOption = None,
) -> None:
    body = {} if json_text is None else given_json(json_text)
    tested = client.preview_hook(hook_id, body, headers=by_name(header), query=by_name(query), tenant=tenant)
    show(tested, output, tested_delivery_view)


@client_command(
    "pyoco-client hooks deliveries orders",
    "pyoco-client hooks deliveries orders --status refused --limit 10",
    "pyoco-client hooks deliveries orders --id 41",
)
def deliveries(
    client: PyocoHttpClient,
    hook_id: HookIdArgument,
    *,
    delivery_id: Annotated[
        int | None, option("Show this one, with its body and headers.", "DELIVERY_ID", "--id", min=1)
    ] = None,
    status: Annotated[
        str | None,
        text_option(
            f"Only with this status: {', '.join(DeliveryStatus)}.",
            "STATUS",
            autocompletion=lambda: list(DeliveryStatus),
        ),
    ] = None,
    limit: Limit = None,
    all_pages: AllPages = False,
    tenant: Tenant = None,
    output: OutputOption = None,
) -> None:
    if delivery_id is not None:
        show(client.get_delivery(hook_id, delivery_id, tenant=tenant), output, delivery_view)
        return
    found = listed(
        lambda size: client.iter_deliveries(hook_id, size, status=status, tenant=tenant), limit, all_pages
    )
    show(found, output, deliveries_view)


@client_command(
    "pyoco-client hooks redeliver orders 41",
    "pyoco-client hooks redeliver orders 41 --new-run",
)
def redeliver(
    client: PyocoHttpClient,
    hook_id: HookIdArgument,
    delivery_id: DeliveryIdArgument,
    *,
    new_run: Annotated[
        bool, flag("--new-run", "Start another run, although this delivery has started one.")
    ] = False,
    idempotency_key: Annotated[
        str | None,
        option(
            "With --new-run: repeating the command with the same key within 90 days "
            "(PYOCO_HOOK_IDEMPOTENCY_TTL_SEC of the gateway) starts no further run.",
            "KEY",
            parser=checked_key,
        ),
    ] = None,
    tenant: Tenant = None,
    output: OutputOption = None,
) -> None:
    done = client.redeliver(
        hook_id, delivery_id, new_run=new_run, tenant=tenant, idempotency_key=idempotency_key
    )
    show(done, output, redelivered_view)
