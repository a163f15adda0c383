"""`pyoco-client schedules`: runs that start at times."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pyoco_server.cli.commands.schedules.schedule_apply import apply_schedules, summary, undeclared_ids
from pyoco_server.cli.commands.schedules.schedule_file import read_schedule_file
from pyoco_server.cli.options.client_options import (
    AllPages,
    Limit,
    OutputOption,
    ScheduleKey,
    client_command,
    listed,
)
from pyoco_server.cli.options.filter_options import schedule_filter
from pyoco_server.cli.options.param_options import ParamsFile, ParamsJson, SingleParams, merged_params
from pyoco_server.cli.options.schedule_options import (
    BackfillIdArgument,
    Note,
    OverlapOption,
    Revision,
    ScheduleIdArgument,
    Tenant,
    run_fields,
    spec_fields,
)
from pyoco_server.cli.options.shared_options import flag, option, text_option
from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.console import OutputFormat, effective_format, pairs, show
from pyoco_server.cli.views.schedule_views import (
    applied_view,
    backfill_view,
    backfills_view,
    cancelled_backfill_view,
    schedule_view,
    schedules_view,
    times_view,
    triggered_view,
)
from pyoco_server.errors import InvalidCliArgument
from pyoco_server.http_client import PyocoHttpClient, ScheduleFilter


@client_command(
    "pyoco-client schedules list",
    "pyoco-client schedules list --flow etl --paused",
    "pyoco-client schedules list --search nightly --output json",
    filters=schedule_filter,
)
def list_schedules(
    client: PyocoHttpClient,
    *,
    filters: ScheduleFilter,
    limit: Limit = None,
    all_pages: AllPages = False,
    output: OutputOption = None,
) -> None:
    found = listed(lambda size: client.iter_schedules(size, **filters), limit, all_pages)
    show(found, output, schedules_view)


@client_command("pyoco-client schedules get nightly")
def get(
    client: PyocoHttpClient,
    schedule_id: ScheduleIdArgument,
    *,
    tenant: Tenant = None,
    output: OutputOption = None,
) -> None:
    show(client.get_schedule(schedule_id, tenant=tenant), output, schedule_view)


@client_command(
    'pyoco-client schedules create nightly --flow-name etl --cron "0 2 * * *" --timezone Asia/Tokyo',
    "pyoco-client schedules create poll --flow-name poll --every 30s --overlap buffer_one --param region=eu",
    "pyoco-client schedules create launch --flow-name announce --at 2030-01-31T09:00+01:00",
    spec=spec_fields,
    fields=run_fields,
)
def create(
    client: PyocoHttpClient,
    schedule_id: ScheduleIdArgument,
    *,
    flow_name: Annotated[str, text_option("The flow that it runs.")],
    spec: dict[str, Any],
    fields: dict[str, Any],
    paused: Annotated[bool, flag("--paused", "Create it paused.")] = False,
    output: OutputOption = None,
) -> None:
    if not spec.keys() & {"cron", "every_sec", "at"}:
        raise InvalidCliArgument("say when it runs: --cron, --every or --at")
    show(client.create_schedule(schedule_id, flow_name, spec, paused=paused, **fields), output, schedule_view)


@client_command(
    'pyoco-client schedules update nightly --cron "30 2 * * *"',
    "pyoco-client schedules update nightly --overlap buffer_one --revision 3",
    spec=spec_fields,
    fields=run_fields,
)
def update(
    client: PyocoHttpClient,
    schedule_id: ScheduleIdArgument,
    *,
    flow_name: Annotated[str | None, text_option("The flow that it runs.")] = None,
    spec: dict[str, Any],
    fields: dict[str, Any],
    revision: Revision = None,
    tenant: Tenant = None,
    output: OutputOption = None,
) -> None:
    if spec:
        fields["spec"] = spec
    if flow_name is not None:
        fields["flow_name"] = flow_name
    if not fields:
        raise InvalidCliArgument("say what changes, such as --cron, --param or --overlap")
    changed = client.update_schedule(schedule_id, revision=revision, tenant=tenant, **fields)
    show(changed, output, schedule_view)


@client_command("pyoco-client schedules delete nightly")
def delete(
    client: PyocoHttpClient,
    schedule_id: ScheduleIdArgument,
    *,
    revision: Revision = None,
    tenant: Tenant = None,
    output: OutputOption = None,
) -> None:
    deleted = client.delete_schedule(schedule_id, revision=revision, tenant=tenant)
    show(
        deleted, output, lambda it: pairs([("schedule_id", it["schedule_id"]), ("deleted", localized("yes"))])
    )


@client_command('pyoco-client schedules pause nightly --note "the warehouse is being moved"')
def pause(
    client: PyocoHttpClient,
    schedule_id: ScheduleIdArgument,
    *,
    note: Note = None,
    tenant: Tenant = None,
    output: OutputOption = None,
) -> None:
    show(client.pause_schedule(schedule_id, note, tenant=tenant), output, schedule_view)


@client_command("pyoco-client schedules resume nightly")
def resume(
    client: PyocoHttpClient,
    schedule_id: ScheduleIdArgument,
    *,
    note: Note = None,
    tenant: Tenant = None,
    output: OutputOption = None,
) -> None:
    show(client.resume_schedule(schedule_id, note, tenant=tenant), output, schedule_view)


@client_command(
    "pyoco-client schedules trigger nightly",
    "pyoco-client schedules trigger nightly --param day=2027-01-31 --overlap allow_all",
)
def trigger(
    client: PyocoHttpClient,
    schedule_id: ScheduleIdArgument,
    *,
    params_file: ParamsFile = None,
    params_json: ParamsJson = None,
    param: SingleParams = None,
    overlap: OverlapOption = None,
    idempotency_key: ScheduleKey = None,
    tenant: Tenant = None,
    output: OutputOption = None,
) -> None:
    params = merged_params(params_file, params_json, param) or None
    started = client.trigger_schedule(
        schedule_id, params, overlap=overlap, tenant=tenant, idempotency_key=idempotency_key
    )
    show(started, output, triggered_view)


@client_command(
    "pyoco-client schedules backfill nightly --from 2026-01-01 --to 2026-01-08 --dry-run",
    "pyoco-client schedules backfill nightly --from 2026-01-01 --to 2026-01-08",
)
def backfill(
    client: PyocoHttpClient,
    schedule_id: ScheduleIdArgument,
    *,
    start: Annotated[
        str, text_option("From this time on, in the schedule's zone if it has no offset.", "TIME", "--from")
    ],
    end: Annotated[str, text_option("Before this time.", "TIME", "--to")],
    overlap: OverlapOption = None,
    dry_run: Annotated[bool, flag("--dry-run", "Only count the runs.")] = False,
    idempotency_key: ScheduleKey = None,
    tenant: Tenant = None,
    output: OutputOption = None,
) -> None:
    done = client.backfill_schedule(
        schedule_id,
        start,
        end,
        overlap=overlap,
        dry_run=dry_run,
        tenant=tenant,
        idempotency_key=idempotency_key,
    )
    show(done, output, backfill_view)


@client_command("pyoco-client schedules backfills nightly")
def backfills(
    client: PyocoHttpClient,
    schedule_id: ScheduleIdArgument,
    *,
    tenant: Tenant = None,
    output: OutputOption = None,
) -> None:
    show(client.list_backfills(schedule_id, tenant=tenant)["items"], output, backfills_view)


@client_command("pyoco-client schedules cancel-backfill nightly 5f0c2a9be1d34c77")
def cancel_backfill(
    client: PyocoHttpClient,
    schedule_id: ScheduleIdArgument,
    backfill_id: BackfillIdArgument,
    *,
    tenant: Tenant = None,
    output: OutputOption = None,
) -> None:
    show(client.cancel_backfill(schedule_id, backfill_id, tenant=tenant), output, cancelled_backfill_view)


@client_command("pyoco-client schedules next nightly", "pyoco-client schedules next nightly -n 30")
def next_times(
    client: PyocoHttpClient,
    schedule_id: ScheduleIdArgument,
    *,
    number: Annotated[int | None, option("How many (default: 10).", "N", "-n", "--number", min=1)] = None,
    tenant: Tenant = None,
    output: OutputOption = None,
) -> None:
    show(client.next_times(schedule_id, number, tenant=tenant), output, times_view)


@client_command(
    "pyoco-client schedules apply -f schedules.yaml --dry-run",
    "pyoco-client schedules apply -f schedules.yaml --prune",
)
def apply(
    client: PyocoHttpClient,
    *,
    file: Annotated[
        Path, option("The file with the schedules.", "FILE", "-f", "--file", exists=True, dir_okay=False)
    ],
    prune: Annotated[
        bool, flag("--prune", "Delete the schedules of this tenant that the file does not have.")
    ] = False,
    dry_run: Annotated[bool, flag("--dry-run", "Show the difference and change nothing.")] = False,
    output: OutputOption = None,
) -> None:
    declared = read_schedule_file(file).schedules
    removed = undeclared_ids(client, declared) if prune else set()
    done = apply_schedules(client, declared, removed, dry_run=dry_run)
    if effective_format(output) is OutputFormat.TABLE:
        show(done, OutputFormat.TABLE, partial(applied_view, dry_run=dry_run))
    else:
        show({"dry_run": dry_run, **summary(done)}, OutputFormat.JSON, lambda _: "")
