"""In which order runs are listed, and where a page begins.

The place of a run in a list is the value it is sorted by, then its revision. Both change only when the run is
written. So who goes on behind a place sees each run that was not written meanwhile once, and misses none.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class SortField(StrEnum):
    UPDATED_AT = "updated_at"
    SUBMITTED_AT = "submitted_at"
    START_TIME = "start_time"
    END_TIME = "end_time"
    DURATION = "duration"
    FLOW_NAME = "flow_name"
    STATUS = "status"

    @property
    def group_column(self) -> str | None:
        """Of a field that all runs of a group have in common."""
        return {SortField.FLOW_NAME: "flow", SortField.STATUS: "status"}.get(self)

    @property
    def time(self) -> str:
        """The column in whose order the runs of one group are listed."""
        return SortField.UPDATED_AT if self.group_column else self.value


@dataclass(frozen=True, slots=True)
class Sort:
    field: SortField = SortField.UPDATED_AT
    descending: bool = True

    @property
    def direction(self) -> str:
        return "DESC" if self.descending else "ASC"

    @property
    def beyond(self) -> str:
        return "<" if self.descending else ">"

    def clause(self, table: str) -> str:
        time = self.field.time
        return f"ORDER BY {table}.{time} {self.direction}, {table}.revision {self.direction}"


class Place(NamedTuple):
    """Where a run stands in a list. A tuple, since many are made and compared."""

    # Of a list by flow name or status; else the same for all.
    name: str
    time: float
    revision: int
