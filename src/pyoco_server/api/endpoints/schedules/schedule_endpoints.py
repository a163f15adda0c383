"""Endpoints of schedules and backfills."""

from pyoco_server.api import schedule_types as schedules
from pyoco_server.api.endpoints.audit_rule import AuditRule
from pyoco_server.api.endpoints.endpoint import CHANGES_NOTHING, Body, Endpoint
from pyoco_server.api.endpoints.endpoint_errors import LIST_ERRORS, NATS, UNREADABLE
from pyoco_server.api.endpoints.endpoint_scopes import PAUSE, PREVIEW, READ, SUBMIT
from pyoco_server.errors.error_table import Err

_SCHEDULE_ERRORS = (Err.SCHEDULE_NOT_FOUND, UNREADABLE, Err.INVALID_REQUEST, NATS)
_SCHEDULE_CHANGE_ERRORS = (*_SCHEDULE_ERRORS, Err.SCHEDULE_CONFLICT)

LIST_SCHEDULES = Endpoint(
    "GET /schedules",
    READ,
    "The schedules that match, in the order of their ids.",
    schedules.SchedulePage,
    LIST_ERRORS,
    query=schedules.ScheduleListQuery,
)
CREATE_SCHEDULE = Endpoint(
    "POST /schedules",
    SUBMIT,
    "Create a schedule: a flow, and the times at which it runs.",
    schedules.ScheduleView,
    (Err.SCHEDULE_CONFLICT, Err.IDEMPOTENCY_CONFLICT, Err.INVALID_REQUEST, Err.WORKFLOW_TOO_LARGE, NATS),
    Body(schedules.ScheduleRequest),
    creates="schedule",
    status=201,
    ok_text="The schedule is stored.",
    audit=AuditRule("schedule.create", ("schedule_id",), response=("flow_name",)),
)
PREVIEW_SCHEDULE = Endpoint(
    "POST /schedules/preview",
    PREVIEW,
    "The next times of a spec; nothing is stored.",
    schedules.NextTimes,
    (Err.INVALID_REQUEST,),
    Body(schedules.PreviewRequest),
    repeatable=True,
    not_audited=CHANGES_NOTHING,
)
GET_SCHEDULE = Endpoint(
    "GET /schedules/{schedule_id}",
    READ,
    "One schedule, with its next times and its last decisions.",
    schedules.ScheduleView,
    _SCHEDULE_ERRORS,
    query=schedules.TenantQuery,
)
PATCH_SCHEDULE = Endpoint(
    "PATCH /schedules/{schedule_id}",
    SUBMIT,
    "Change some fields of a schedule. With a new spec, occurrences that were due before the change and not "
    "decided are skipped.",
    schedules.ScheduleView,
    (*_SCHEDULE_CHANGE_ERRORS, Err.WORKFLOW_TOO_LARGE),
    Body(schedules.SchedulePatch, min_fields=1),
    schedules.TenantQuery,
    audit=AuditRule("schedule.update", ("schedule_id",), changes=True),
)
# Not repeatable: the 404 of a second request would not say whether the first one has deleted it.
DELETE_SCHEDULE = Endpoint(
    "DELETE /schedules/{schedule_id}",
    SUBMIT,
    "Delete a schedule; its runs stay.",
    schedules.ScheduleDeleted,
    _SCHEDULE_CHANGE_ERRORS,
    query=schedules.DeleteScheduleQuery,
    audit=AuditRule("schedule.delete", ("schedule_id",)),
)
PAUSE_SCHEDULE = Endpoint(
    "POST /schedules/{schedule_id}/pause",
    PAUSE,
    "Pause a schedule: no occurrence starts until it is resumed; triggers and backfills still start runs. "
    "Repeating the request changes nothing.",
    schedules.ScheduleView,
    _SCHEDULE_CHANGE_ERRORS,
    Body(schedules.PauseRequest, required=False),
    schedules.TenantQuery,
    repeatable=True,
    audit=AuditRule("schedule.pause", ("schedule_id",), request=("note",)),
)
RESUME_SCHEDULE = Endpoint(
    "POST /schedules/{schedule_id}/resume",
    PAUSE,
    "Resume a paused schedule. What was due meanwhile is not started.",
    schedules.ScheduleView,
    _SCHEDULE_CHANGE_ERRORS,
    Body(schedules.PauseRequest, required=False),
    schedules.TenantQuery,
    repeatable=True,
    audit=AuditRule("schedule.resume", ("schedule_id",), request=("note",)),
)
TRIGGER_SCHEDULE = Endpoint(
    "POST /schedules/{schedule_id}/trigger",
    SUBMIT,
    "Start a run of the schedule now, also while it is paused; the next occurrence stays.",
    schedules.Triggered,
    (*_SCHEDULE_CHANGE_ERRORS, Err.SCHEDULE_BUSY, Err.SCHEDULE_FULL, Err.IDEMPOTENCY_CONFLICT),
    Body(schedules.TriggerRequest, required=False),
    schedules.TenantQuery,
    creates="run",
    audit=AuditRule("schedule.trigger", ("schedule_id",), run="run_id", response=("outcome",)),
)
BACKFILL_SCHEDULE = Endpoint(
    "POST /schedules/{schedule_id}/backfill",
    SUBMIT,
    "Start the runs of a past period; with `dry_run`, only count them.",
    schedules.Backfilled,
    (*_SCHEDULE_CHANGE_ERRORS, Err.SCHEDULE_FULL, Err.IDEMPOTENCY_CONFLICT),
    Body(schedules.BackfillRequest),
    schedules.TenantQuery,
    creates="backfill",
    audit=AuditRule("schedule.backfill", ("schedule_id",), response=("backfill_id", "count")),
)
LIST_BACKFILLS = Endpoint(
    "GET /schedules/{schedule_id}/backfills",
    READ,
    "The backfills of a schedule that are in progress, in the order of their requests.",
    schedules.BackfillList,
    _SCHEDULE_ERRORS,
    query=schedules.TenantQuery,
)
# Not repeatable, as the deletion of a schedule.
CANCEL_BACKFILL = Endpoint(
    "DELETE /schedules/{schedule_id}/backfills/{backfill_id}",
    PAUSE,
    "Cancel a backfill: it starts nothing more. The runs that it has started stay.",
    schedules.BackfillCancelled,
    (*_SCHEDULE_CHANGE_ERRORS, Err.BACKFILL_NOT_FOUND),
    query=schedules.TenantQuery,
    audit=AuditRule("schedule.cancel_backfill", ("schedule_id",), response=("started", "skipped")),
)
NEXT_TIMES = Endpoint(
    "GET /schedules/{schedule_id}/next",
    READ,
    "The next times of a schedule, also while it is paused.",
    schedules.NextTimes,
    _SCHEDULE_ERRORS,
    query=schedules.NextQuery,
)
