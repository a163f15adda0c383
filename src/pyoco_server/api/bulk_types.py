"""What the endpoints of bulk operations take and return."""

from typing import Annotated

from msgspec import Meta, Struct

from pyoco_server.api.run_types import KeepAnswers
from pyoco_server.records.runs.bulk_models import MAX_BULK_ITEMS, BulkAction, BulkRecord
from pyoco_server.records.runs.run_models import RerunMode


class BulkRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Exactly one of these: count only; do it unless more match; do what a dry run has counted."""

    dry_run: bool = False
    expected_count: Annotated[int, Meta(ge=0, le=MAX_BULK_ITEMS)] | None = None
    token: Annotated[str, Meta(min_length=1, max_length=100)] | None = None


class BulkCancelRequest(BulkRequest, kw_only=True, forbid_unknown_fields=True):
    """Cancel the runs, for this reason."""

    reason: Annotated[str, Meta(max_length=1000)] | None = None


class BulkRerunRequest(BulkRequest, kw_only=True, forbid_unknown_fields=True):
    """Where the reruns start: `start` or `failed`."""

    mode: RerunMode = RerunMode.START
    keep_answers: KeepAnswers = False


class BulkReplayRequest(BulkRequest, kw_only=True, forbid_unknown_fields=True):
    """Replay the letters, and delete them with `delete`."""

    mode: RerunMode = RerunMode.START
    delete: bool = False


class BulkAnswer(Struct, kw_only=True):
    """How many match and some of them; after a dry run a token, else the operation that has started."""

    action: BulkAction
    dry_run: bool
    matched: int
    sample: list[str]
    token: str | None = None
    operation: BulkRecord | None = None


class BulkList(Struct, kw_only=True):
    """Bulk operations, newest first."""

    items: list[BulkRecord]
