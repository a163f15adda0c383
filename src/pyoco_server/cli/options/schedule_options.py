"""The fields of a schedule as options that `schedules create` and `schedules update` share."""

from pathlib import Path
from typing import Annotated, Any

import typer

from pyoco_server.cli.options.client_options import RunLimit, Tag
from pyoco_server.cli.options.param_options import ParamsFile, ParamsJson, SingleParams
from pyoco_server.cli.options.shared_options import one_of, option, text_option
from pyoco_server.cli.options.time_formats import parse_duration
from pyoco_server.cli.options.trigger_options import flow_binding
from pyoco_server.records.schedules.schedule_models import SCHEDULE_ID_EXPECTED, Overlap, is_schedule_id


def _checked_schedule_id(text: str) -> str:
    if not is_schedule_id(text):
        raise typer.BadParameter(f"{text!r}: {SCHEDULE_ID_EXPECTED}")
    return text


BackfillIdArgument = Annotated[
    str,
    typer.Argument(help="The id of the backfill: `schedules backfills` lists them.", metavar="BACKFILL_ID"),
]
ScheduleIdArgument = Annotated[
    str,
    typer.Argument(help="The id of the schedule.", metavar="SCHEDULE_ID", parser=_checked_schedule_id),
]
OverlapOption = Annotated[
    str | None,
    option(
        f"While an earlier run is open: {', '.join(Overlap)}.",
        "POLICY",
        "--overlap",
        parser=one_of(Overlap, str.lower),
        autocompletion=lambda: list(Overlap),
    ),
]
Tenant = Annotated[str | None, text_option("For operators: the tenant of the schedule.", "ID")]
Revision = Annotated[
    int | None, option("Only if the schedule is still at this revision.", "N", min=1, show_default=False)
]
Note = Annotated[str | None, text_option("A note for people.", "TEXT", "--note")]


def spec_fields(
    *,
    cron: Annotated[
        list[str] | None, text_option("Five cron fields, or @hourly and its like; repeatable.", "CRON")
    ] = None,
    every: Annotated[
        float | None, option("A fixed interval such as 30s, 15m or 2h.", "TIME", parser=parse_duration)
    ] = None,
    anchor: Annotated[str | None, text_option("A moment that --every counts from.", "TIME")] = None,
    at: Annotated[
        list[str] | None, text_option("A single moment such as 2027-01-31T17:00; repeatable.", "TIME")
    ] = None,
    timezone: Annotated[
        str | None,
        text_option("IANA time zone of cron and of times without an offset (default: UTC).", "ZONE"),
    ] = None,
    start_at: Annotated[str | None, text_option("No occurrence before this time.", "TIME")] = None,
    end_at: Annotated[str | None, text_option("No occurrence from this time on.", "TIME")] = None,
    jitter: Annotated[
        float | None, option("Start up to this much later.", "TIME", parser=parse_duration)
    ] = None,
    exclude: Annotated[
        list[str] | None, text_option("A date or cron expression to leave out; repeatable.", "DATE")
    ] = None,
) -> dict[str, Any]:
    """The given fields of the spec."""
    fields = {
        "cron": cron or None,
        "every_sec": every,
        "anchor": anchor,
        "at": at or None,
        "timezone": timezone,
        "start_at": start_at,
        "end_at": end_at,
        "jitter_sec": jitter,
        "exclude": exclude or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def run_fields(
    *,
    workflow_file: Annotated[
        Path | None,
        option("A flow.yaml to run, stored with the schedule.", "FILE", exists=True, dir_okay=False),
    ] = None,
    params_file: ParamsFile = None,
    params_json: ParamsJson = None,
    param: SingleParams = None,
    tag: Tag = None,
    tags: Annotated[str | None, text_option("Comma-separated labels of its runs.", "A,B")] = None,
    run_timeout_sec: RunLimit = None,
    overlap: OverlapOption = None,
    catchup_window: Annotated[
        float | None,
        option("How late an occurrence may still start, such as 10m.", "TIME", parser=parse_duration),
    ] = None,
    pause_on_failure: Annotated[
        bool | None,
        typer.Option(
            "--pause-on-failure/--no-pause-on-failure", help="Pause the schedule when one of its runs fails."
        ),
    ] = None,
    remaining_runs: Annotated[int | None, option("Start only so many more runs.", "N", min=1)] = None,
    note: Note = None,
) -> dict[str, Any]:
    """The given fields beside the spec."""
    started = flow_binding(
        workflow_file=workflow_file,
        params_file=params_file,
        params_json=params_json,
        param=param,
        tag=tag,
        tags=tags,
        run_timeout_sec=run_timeout_sec,
    )
    fields = {
        "overlap": overlap,
        "catchup_window_sec": catchup_window,
        "pause_on_failure": pause_on_failure,
        "remaining_runs": remaining_runs,
        "note": note,
    }
    return started | {name: value for name, value in fields.items() if value is not None}
