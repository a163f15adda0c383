"""Saved views of the list of runs."""

import re
from typing import Final

from msgspec import Struct

from pyoco_server.records.decoding import record_decoder
from pyoco_server.records.ids import NO_TENANT
from pyoco_server.records.moments import Timestamp
from pyoco_server.records.value_types import Count

VIEW_NAME_CHARS: Final = 80
VIEW_NAME_EXPECTED: Final = (
    f"expected 1 to {VIEW_NAME_CHARS} printable characters with a letter or a digit, without / or \\, and "
    "without a space at either end"
)
# It is part of a path, where `.` and `..` alone have a meaning.
_VIEW_NAME: Final = re.compile(r"(?=.*\w)[^/\\]+")


def is_view_name(name: str) -> bool:
    return (
        len(name) <= VIEW_NAME_CHARS
        and _VIEW_NAME.fullmatch(name) is not None
        and name.isprintable()
        and name == name.strip()
    )


class ViewFilter(Struct, kw_only=True, omit_defaults=True):
    """The filters of `GET /runs`; none of them: all runs."""

    status: list[str] = []
    flow: str | None = None
    tag: str | None = None
    worker: str | None = None
    origin: str | None = None
    cause: str | None = None
    workflow_yaml_sha256: str | None = None
    # `1h`, `24h`, `7d` or `30d`: updated within this time before the list is read.
    since: str | None = None
    updated_after: float | None = None
    updated_before: float | None = None
    submitted_after: float | None = None
    submitted_before: float | None = None
    q: str | None = None


class SavedView(Struct, kw_only=True, omit_defaults=True):
    """A named list of runs."""

    name: str
    filter: ViewFilter
    sort: str = "updated_at"
    order: str = "desc"
    # Empty: the usual ones.
    columns: list[str] = []
    # Changes with each change of the view, and never returns to an earlier value.
    revision: Count
    created_at: Timestamp
    updated_at: Timestamp
    # The names of the API keys; None where no API keys are required.
    created_by: str | None = None
    updated_by: str | None = None


class SavedViews(Struct, kw_only=True, omit_defaults=True):
    """All views of a tenant, so that names and their number are checked with each write.

    Bucket `pyoco_views`, key `<tenant or =>`.
    """

    tenant_id: str | None = None
    # By name.
    views: list[SavedView] = []
    # How often any of them was saved.
    changes: Count = 0

    @property
    def key(self) -> str:
        return self.tenant_id or NO_TENANT

    def find(self, name: str) -> SavedView | None:
        return next((view for view in self.views if view.name == name), None)


decode_views = record_decoder(SavedViews)
