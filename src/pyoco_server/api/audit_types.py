"""Requests and responses of the audit log."""

from typing import Annotated, Final

from msgspec import UNSET, Meta, Struct, UnsetType

from pyoco_server.api.query_params import NextCursor
from pyoco_server.api.run_types import Text, UnixTime
from pyoco_server.records.monitoring.audit_entry_models import AuditEntry, AuditOutcome, AuditTarget, AuditVia
from pyoco_server.records.waits.wait_models import Actor

AUDIT_LIMIT_DEFAULT: Final = 50
AUDIT_LIMIT_MAX: Final = 200


class AuditQuery(Struct, kw_only=True):
    """Which entries are listed."""

    actor: Annotated[
        Text | UnsetType,
        Meta(description="By this one: the id or name of an API key, an address, or `anonymous`."),
    ] = UNSET
    action: Annotated[
        Text | UnsetType, Meta(description="This action, such as `run.cancel`; `run`: all actions on runs.")
    ] = UNSET
    target: Annotated[
        Text | UnsetType, Meta(description="On this: the id or name of a run, schedule, worker and so on.")
    ] = UNSET
    run_id: Annotated[
        str | UnsetType,
        Meta(description="On this run or its questions.", extra_json_schema={"format": "uuid"}),
    ] = UNSET
    outcome: Annotated[AuditOutcome | UnsetType, Meta(description="With this outcome.")] = UNSET
    since: Annotated[UnixTime | UnsetType, Meta(description="At this time or later.")] = UNSET
    until: Annotated[UnixTime | UnsetType, Meta(description="Before this time.")] = UNSET
    limit: Annotated[int, Meta(ge=1, le=AUDIT_LIMIT_MAX, description="How many at most.")] = (
        AUDIT_LIMIT_DEFAULT
    )
    cursor: NextCursor = UNSET


class AuditActorView(Actor, kw_only=True, omit_defaults=False):
    """Who did it. Without a key, `api_key_id` and `name` are null: an anonymous caller."""


class AuditTargetView(AuditTarget, kw_only=True, omit_defaults=False):
    """What it was done to."""


class AuditEntryView(AuditEntry, kw_only=True, omit_defaults=False):
    """One action of somebody."""

    actor: AuditActorView
    target: AuditTargetView
    via: AuditVia


class AuditPage(Struct, kw_only=True):
    """One page of the audit log."""

    items: list[AuditEntryView]
    # None on the last page.
    next_cursor: str | None
