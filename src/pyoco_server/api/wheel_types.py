"""What the endpoints of wheels take and return."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from pyoco_server.records.workers.wheel_models import WheelAction


class WheelView(Struct, kw_only=True):
    """One wheel of the registry."""

    name: str
    size_bytes: int
    bucket: str
    # Another one for each upload: workers compare it.
    nuid: str
    modified: float
    sha256_hex: str | None
    # Which workers install it; none: all of them.
    tags: list[str]


class WheelDeleted(Struct, kw_only=True):
    """The wheel is deleted."""

    name: str
    deleted: bool = True


class WheelFields(Struct, kw_only=True, forbid_unknown_fields=True):
    """The text fields of an upload."""

    replace: Annotated[bool, Meta(description="Written to the history; the version decides.")] = True
    tags: Annotated[str, Meta(description="Which workers install it, separated by commas; all.")] = ""


class WheelHistoryQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which uploads and deletions are listed."""

    limit: Annotated[int, Meta(ge=1, le=500, description="How many at most.")] = 100
    wheel_name: Annotated[str | UnsetType, Meta(description="Only those of this wheel.")] = UNSET
    action: Annotated[WheelAction | UnsetType, Meta(description="Only uploads, or deletions.")] = UNSET
