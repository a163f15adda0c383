"""Saved views of the list of runs: one record per tenant, and each change is a compare-and-set."""

from collections.abc import Callable
from typing import Final

from msgspec import structs

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.keyed_records import KeyedRecords
from pyoco_server.errors import FieldProblem, InvalidRequest, ViewConflict, ViewNotFound, shortened
from pyoco_server.records.ids import NO_TENANT
from pyoco_server.records.runs.saved_view_models import SavedView, SavedViews, decode_views
from pyoco_server.records.unreadable_records import RecordKind

# Of each tenant: they are one record.
MAX_VIEWS: Final = 100
# For `revision`: there must be no view of this name.
NEW: Final = 0


class SavedViewStore:
    """The `pyoco_views` bucket."""

    def __init__(self, connection: Connection, *, clock: Callable[[], float]) -> None:
        bucket = connection.config.views_kv_bucket
        self._records = KeyedRecords(connection, bucket, RecordKind.VIEWS, decode_views)
        self._clock = clock

    async def all(self, tenant: str | None) -> list[SavedView]:
        stored = await self._records.get_from_leader(tenant or NO_TENANT)
        return [] if stored is None else stored.record.views

    async def get(self, tenant: str | None, name: str) -> SavedView:
        found = next((view for view in await self.all(tenant) if view.name == name), None)
        if found is None:
            raise _not_found(name)
        return found

    async def save(
        self, tenant: str | None, name: str, view: SavedView, *, revision: int | None = None
    ) -> SavedView:
        """Create the view, or replace the one called `name`, which may get another name.

        ViewConflict unless it has this revision, or if another view has the new name; ViewNotFound if there
        is none to rename.
        """
        saved = view

        def make(before: SavedViews | None) -> SavedViews:
            nonlocal saved
            record = before or SavedViews(tenant_id=tenant)
            current = record.find(name)
            _check(name, current, revision)
            if view.name != name:
                if current is None:
                    raise _not_found(name)
                if record.find(view.name) is not None:
                    raise ViewConflict(f"there is another view {shortened(view.name)}; choose another name")
            if current is None and len(record.views) >= MAX_VIEWS:
                problem = FieldProblem("name", f"there are {MAX_VIEWS} views already; delete one first", name)
                raise InvalidRequest(problems=[problem])
            now, changes = self._clock(), record.changes + 1
            saved = structs.replace(view, revision=changes, created_at=now, updated_at=now)
            if current is not None:
                saved = structs.replace(saved, created_at=current.created_at, created_by=current.created_by)
            others = [each for each in record.views if each is not current]
            return structs.replace(record, views=_by_name([*others, saved]), changes=changes)

        await self._records.change(tenant or NO_TENANT, make)
        return saved

    async def delete(self, tenant: str | None, name: str, *, revision: int | None = None) -> None:
        """ViewNotFound if there is none; ViewConflict unless it has this revision."""

        def make(before: SavedViews | None) -> SavedViews:
            current = None if before is None else before.find(name)
            if before is None or current is None:
                raise _not_found(name)
            _check(name, current, revision)
            # The record stays, with the number of its changes.
            return structs.replace(before, views=[each for each in before.views if each is not current])

        await self._records.change(tenant or NO_TENANT, make)


def _check(name: str, current: SavedView | None, revision: int | None) -> None:
    """`revision` is that of the view that the caller has seen; None: any."""
    actual = NEW if current is None else current.revision
    if revision in (None, actual):
        return
    if current is None:
        raise _not_found(name)
    by = f" by {shortened(current.updated_by)}" if current.updated_by else ""
    what = "exists" if revision == NEW else f"was changed{by}"
    raise ViewConflict(f"the view {shortened(name)} {what}: it has revision {actual}")


def _by_name(views: list[SavedView]) -> list[SavedView]:
    return sorted(views, key=lambda view: view.name.casefold())


def _not_found(name: str) -> ViewNotFound:
    return ViewNotFound(f"there is no view {shortened(name)}")
