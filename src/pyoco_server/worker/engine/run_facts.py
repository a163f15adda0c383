"""`ctx.run`: which run a task belongs to, and what has started it."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyoco_server.records.runs.causes import BY_API, Cause

if TYPE_CHECKING:
    from pyoco_server.worker.ipc.protocol import Run


@dataclass(frozen=True, slots=True)
class RunFacts:
    run_id: str
    flow_name: str
    # `api`, `schedule`, `event`, `request`, `rerun` or `parent`.
    cause: str
    # Of the schedule, the event, the request or the run; None for `api`.
    cause_id: str | None = None
    # The time that a schedule has started the run for, which may be earlier than its start.
    scheduled_for: datetime | None = None


def facts_of(run: "Run") -> RunFacts:
    cause: Cause = run.cause or BY_API
    due = None if cause.at is None else datetime.fromtimestamp(cause.at, UTC)
    return RunFacts(run.run_id, run.flow_name, str(cause.kind), cause.id, due)


class FactsAttribute:
    """Not a property: an attribute `run` that a flow assigns to its context comes before it."""

    def __get__(self, context: Any, _owner: type | None = None) -> Any:
        return self if context is None else context.run_context.facts
