"""The filters of lists and bulk commands as options that several commands share."""

from typing import Annotated, Any

import typer

from pyoco_server.cli.options.shared_options import one_of, option, text_option
from pyoco_server.cli.options.time_formats import parse_time
from pyoco_server.http_client import AuditFilter, LetterFilter, RunFilter, ScheduleFilter, WaitFilter
from pyoco_server.records.runs.bulk_models import LetterState
from pyoco_server.records.runs.causes import CauseKind
from pyoco_server.records.runs.run_models import Reason, RunStatus, WaitKind
from pyoco_server.records.waits.wait_models import WaitState


def _time(help_text: str) -> Any:
    return option(help_text, "TIME", parser=parse_time)


def run_filter(
    *,
    status: Annotated[
        list[RunStatus] | None,
        option(
            "Only runs with this status; repeatable.",
            "STATUS",
            parser=one_of(RunStatus),
            autocompletion=lambda: list(RunStatus),
        ),
    ] = None,
    flow: Annotated[str | None, text_option("Only runs of this flow.")] = None,
    tag: Annotated[str | None, text_option("Only runs with this tag or label.", "TAG")] = None,
    worker: Annotated[
        str | None, text_option("Only runs that this worker executes or executed.", "ID")
    ] = None,
    origin: Annotated[str | None, text_option("Only reruns of this run.", "ID")] = None,
    cause: Annotated[
        str | None,
        text_option(
            "Only runs that this has started: api, schedule, event, request or rerun (parent is "
            "reserved), or one of them such as schedule:NAME, event:hook:ID or event:template:ID.",
            "CAUSE",
            autocompletion=lambda: list(CauseKind),
        ),
    ] = None,
    search: Annotated[
        str | None,
        text_option("Only runs with this text in their flow name, error, labels or params.", "TEXT"),
    ] = None,
    updated_after: Annotated[
        float | None, _time("Only runs changed after this time: 2h (ago), 2026-01-31T09:00 or unix seconds.")
    ] = None,
    updated_before: Annotated[float | None, _time("Only runs last changed before this time.")] = None,
    submitted_after: Annotated[float | None, _time("Only runs submitted after this time.")] = None,
    submitted_before: Annotated[float | None, _time("Only runs submitted before this time.")] = None,
    workflow_yaml_sha256: Annotated[
        str | None, text_option("Only runs of the flow.yaml with this digest.", "HEX")
    ] = None,
) -> RunFilter:
    return RunFilter(
        status=status or [],
        flow=flow,
        tag=tag,
        worker=worker,
        origin=origin,
        cause=cause,
        q=search,
        updated_after=updated_after,
        updated_before=updated_before,
        submitted_after=submitted_after,
        submitted_before=submitted_before,
        workflow_yaml_sha256=workflow_yaml_sha256,
    )


def letter_filter(
    *,
    reason: Annotated[
        list[str] | None,
        text_option(
            "Only letters with this reason, such as execution_error; repeatable.",
            "WORD",
            autocompletion=lambda: list(Reason),
        ),
    ] = None,
    flow: Annotated[str | None, text_option("Only letters of this flow.")] = None,
    tag: Annotated[str | None, text_option("Only letters of this tag.", "TAG")] = None,
    worker: Annotated[str | None, text_option("Only letters of this worker.", "ID")] = None,
    run_id: Annotated[str | None, text_option("Only letters of this run.", "ID")] = None,
    search: Annotated[
        str | None,
        text_option("Only letters with this text in their error, reason, flow, run or worker.", "TEXT"),
    ] = None,
    since: Annotated[
        float | None, _time("Only letters after this time: 2h (ago), 2026-01-31T09:00 or unix seconds.")
    ] = None,
    until: Annotated[float | None, _time("Only letters up to this time.")] = None,
    state: Annotated[
        str | None,
        option(
            "Only open letters, or only closed ones: those whose run was rerun with success.",
            "STATE",
            parser=one_of(LetterState, str.lower),
            autocompletion=lambda: list(LetterState),
        ),
    ] = None,
) -> LetterFilter:
    return LetterFilter(
        state=state,
        reason=reason or [],
        flow=flow,
        tag=tag,
        worker=worker,
        run_id=run_id,
        q=search,
        since=since,
        until=until,
    )


def audit_filter(
    *,
    actor: Annotated[
        str | None, text_option("Only actions of this API key (id or name), address or `anonymous`.", "WHO")
    ] = None,
    action: Annotated[
        str | None, text_option("Only this action, such as run.cancel; `run`: all on runs.", "WORD")
    ] = None,
    target: Annotated[
        str | None, text_option("Only actions on this schedule, worker, wheel, flow and so on.", "NAME")
    ] = None,
    run: Annotated[
        str | None, text_option("Only actions on this run or its questions.", "RUN_ID", "--run")
    ] = None,
    outcome: Annotated[
        str | None,
        text_option(
            "Only `accepted`, `refused` or `failed` requests.",
            "WORD",
            autocompletion=lambda: ["accepted", "refused", "failed"],
        ),
    ] = None,
    since: Annotated[
        float | None, _time("Only actions since this time: 2h (ago), 2026-01-31T09:00 or unix seconds.")
    ] = None,
    until: Annotated[float | None, _time("Only actions before this time.")] = None,
) -> AuditFilter:
    return AuditFilter(
        actor=actor, action=action, target=target, run_id=run, outcome=outcome, since=since, until=until
    )


def wait_filter(
    *,
    state: Annotated[
        list[str] | None,
        option(
            "Only waits that are open (default), answered, expired or cancelled; repeatable.",
            "STATE",
            parser=one_of(WaitState, str.lower),
            autocompletion=lambda: list(WaitState),
        ),
    ] = None,
    kind: Annotated[
        list[str] | None,
        option(
            "Questions (human, the default), sleep, signal or event; repeatable.",
            "KIND",
            parser=one_of(WaitKind, str.lower),
            autocompletion=lambda: list(WaitKind),
        ),
    ] = None,
    run_id: Annotated[str | None, text_option("Only waits of this run.", "ID")] = None,
    flow: Annotated[str | None, text_option("Only waits of this flow.")] = None,
    tag: Annotated[str | None, text_option("Only waits of this tag.", "TAG")] = None,
    task: Annotated[str | None, text_option("Only waits of this task.")] = None,
    assignee: Annotated[str | None, text_option("Only waits assigned to this API key.")] = None,
) -> WaitFilter:
    return WaitFilter(
        state=state or [],
        kind=kind or [],
        run_id=run_id,
        flow=flow,
        tag=tag,
        task=task,
        assignee=assignee,
    )


def schedule_filter(
    *,
    flow: Annotated[str | None, text_option("Only schedules of this flow.")] = None,
    tag: Annotated[str | None, text_option("Only schedules with this tag or label.", "TAG")] = None,
    paused: Annotated[
        bool | None, typer.Option("--paused/--active", help="Only paused, or only active schedules.")
    ] = None,
    search: Annotated[
        str | None, text_option("Only schedules with this text in their id, flow, labels or note.", "TEXT")
    ] = None,
) -> ScheduleFilter:
    return ScheduleFilter(flow=flow, tag=tag, paused=paused, q=search)
