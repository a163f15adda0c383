"""Lists of schedules: a filter, and pages in the order of ids."""

from bisect import bisect_right
from dataclasses import dataclass

from pyoco_server.runs.index.pagination import SortKey
from pyoco_server.schedules.schedule_directory import ScheduleDirectory, ScheduleRow


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduleSelection:
    # Of the caller, never from the query.
    tenant: str | None = None
    flow: str | None = None
    tag: str | None = None
    paused: bool | None = None
    q: str | None = None

    def matches(self, row: ScheduleRow) -> bool:
        return (
            self.flow in (None, row.flow_name)
            and (self.tag is None or self.tag == row.tag or self.tag in row.tags)
            and self.paused in (None, row.paused)
            and (self.q is None or self.q.casefold() in _text(row))
        )


@dataclass(frozen=True, slots=True)
class SchedulesPage:
    rows: list[ScheduleRow]
    total: int
    # The position of the last row, if more follow.
    next_after: SortKey | None


class ScheduleLists:
    def __init__(self, directory: ScheduleDirectory) -> None:
        self._directory = directory

    async def page(self, selected: ScheduleSelection, *, limit: int, after: SortKey | None) -> SchedulesPage:
        """As of now; NatsUnavailable or IndexNotReady when they cannot be read."""
        await self._directory.caught_up()
        rows = [row for row in self._directory.rows(selected.tenant) if selected.matches(row)]
        start = 0 if after is None else bisect_right(rows, after.name, key=_position)
        page = rows[start : start + limit]
        more = start + limit < len(rows)
        return SchedulesPage(page, len(rows), SortKey(_position(page[-1]), 0.0, 0) if more else None)


def _position(row: ScheduleRow) -> str:
    # A space is before all characters of an id: this is the order of the directory.
    return f"{row.schedule_id} {row.key}"


def _text(row: ScheduleRow) -> str:
    return "\n".join((row.schedule_id, row.flow_name, row.tag, *row.tags, row.note)).casefold()
