"""The log of a run, as pages or followed as server-sent events."""

from collections import deque
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Self, get_args

from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.api.endpoints.endpoint import LAST_EVENT_ID
from pyoco_server.api.endpoints.runs.run_endpoints import GET_LOGS
from pyoco_server.api.run_types import (
    LOG_LIMIT_MAX,
    LOG_SEARCH_MAX,
    LineView,
    LogEnd,
    LogQuery,
    LogStream,
    LogsView,
    PyocoLogEntry,
)
from pyoco_server.errors import FieldProblem, InvalidRequest, shortened
from pyoco_server.http_api.gateway import Gateway, gateway_of
from pyoco_server.http_api.requests.query import (
    RequestQueryReader,
    choice,
    text_up_to,
    whole_number,
    yes_or_no,
)
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.routes.runs.run_routes import owned_run
from pyoco_server.http_api.routing import handles
from pyoco_server.http_api.streams.sse import MEDIA_TYPE, Event, EventSource, EventStream, with_keepalives
from pyoco_server.records.runs.run_models import RunSnapshot
from pyoco_server.runs.watch.log_following import LogFollower
from pyoco_server.runs.watch.log_reading import (
    START,
    LogFilter,
    LogPage,
    LogPosition,
    LogReader,
    PlacedLine,
    lines_before,
)

# Of one response.
_PAGE_LINES: Final = 1000
# More than a stored batch of lines has.
_LINES_OF_A_BATCH: Final = 10**6


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the query asks for."""

    lines: LogFilter
    after: str | None
    before: str | None
    around: str | None
    limit: int | None
    tail: int | None
    follow: bool

    @classmethod
    def by(cls, request: Request) -> Self:
        query = RequestQueryReader(request, LogQuery)
        lines = LogFilter(
            tasks=frozenset(query.repeated("task")),
            streams=frozenset(query.each("stream", choice(*get_args(LogStream)))),
            search=query.one("search", text_up_to(LOG_SEARCH_MAX), ""),
        )
        asked = cls(
            lines=lines,
            after=query.one("after", str, None),
            before=query.one("before", str, None),
            around=query.one("around", str, None),
            limit=query.one("limit", whole_number(1, LOG_LIMIT_MAX), None),
            tail=query.one("tail", whole_number(1, LOG_LIMIT_MAX), None),
            follow=query.one("follow", yes_or_no, default=False) or _accepts_events(request),
        )
        query.check()
        asked.check_places()
        return asked

    @property
    def has_all_streams(self) -> bool:
        return not self.lines.streams and not self.lines.search

    def check_places(self) -> None:
        places = {"tail": self.tail, "before": self.before, "around": self.around, "after": self.after}
        _check_places(places, followed=self.follow, limit=self.limit)

    def position(self, last_event_id: str | None) -> LogPosition:
        """Where the lines begin."""
        if self.follow and last_event_id:
            # A browser that reconnects sends its first URL again, and this newer position.
            return LogPosition.parse(last_event_id, field=LAST_EVENT_ID)
        return START if self.after is None else LogPosition.parse(self.after, field="after")


@handles(GET_LOGS)
async def get_logs(request: Request, run_id: str) -> Response:
    gateway, asked = gateway_of(request), _Asked.by(request)
    position = asked.position(request.headers.get(LAST_EVENT_ID))
    near = _near(asked.before, asked.around)
    snapshot = await owned_run(request, run_id)
    limit = asked.limit or _PAGE_LINES
    if near is not None:
        return json_response(await _lines_near(gateway, snapshot, near, asked.lines, limit))
    if position != START and not await gateway.runs.logs.has_batch(run_id, position.sequence):
        # The line is no longer stored: it is too old, or a backup without it was restored.
        position = START
    if asked.follow:
        source = with_keepalives(_followed(gateway, run_id, position, asked.lines))
        return EventStream(source, stopping=gateway.stopping)
    reader = LogReader(gateway.runs.logs, run_id, after=position, line_filter=asked.lines)
    ended = snapshot.status.terminal
    if asked.tail is not None:
        page = await _last_lines(reader, asked.tail, ended=ended)
    else:
        page = await reader.page(limit, ended=ended)
    view = LogsView(
        run_id=run_id,
        run_status=snapshot.status,
        lines=[_line_view(line) for line in page.lines],
        next_after=None if page.position == START else str(page.position),
        complete=page.complete,
    )
    if asked.after is None and asked.limit is None and asked.has_all_streams:
        view.logs = await _pyoco_entries(reader, page, whole=asked.tail is not None, ended=ended)
    return json_response(view)


def _check_places(places: Mapping[str, str | int | None], *, followed: bool, limit: int | None) -> None:
    given = [name for name, value in places.items() if value is not None]
    for name in given:
        is_alone = len(given) == 1 and not followed and (name != "tail" or limit is None)
        if name != "after" and not is_alone:
            message = (
                "cannot be combined: give only one of `tail`, `before`, `around` and `after`; only `after` "
                "can be followed, and `tail` goes without `limit`"
            )
            value = places[name]
            shown = shortened(value) if isinstance(value, str) else str(value)
            raise InvalidRequest(problems=[FieldProblem(name, message, value=shown)])


class _Near(NamedTuple):
    position: LogPosition
    # Whether the line itself and those after it are shown too.
    both_sides: bool


def _near(before: str | None, around: str | None) -> _Near | None:
    if around is not None:
        return _Near(LogPosition.parse(around, field="around"), both_sides=True)
    if before is not None:
        return _Near(LogPosition.parse(before, field="before"), both_sides=False)
    return None


async def _lines_near(
    gateway: Gateway, snapshot: RunSnapshot, near: _Near, selected: LogFilter, limit: int
) -> LogsView:
    logs, run_id, position = gateway.runs.logs, snapshot.run_id, near.position
    count = (limit - 1) // 2 if near.both_sides else limit
    earlier = await lines_before(logs, run_id, position, count, selected)
    view = LogsView(
        run_id=run_id,
        run_status=snapshot.status,
        lines=[_line_view(line) for line in earlier.lines],
        next_after=str(earlier.lines[-1].position) if earlier.lines else None,
        complete=False,
        previous_before=None if earlier.start is None else str(earlier.start),
    )
    if near.both_sides:
        reader = LogReader(logs, run_id, after=position.just_before, line_filter=selected)
        page = await reader.page(limit - len(earlier.lines), ended=snapshot.status.terminal)
        view.lines += [_line_view(line) for line in page.lines]
        if page.moved:
            view.next_after = str(page.position)
        view.complete = page.complete
    return view


async def _last_lines(reader: LogReader, count: int, *, ended: bool) -> LogPage:
    """The last page of the log, with this many lines of it and of those before."""
    lines: deque[PlacedLine] = deque(maxlen=count)
    while True:
        page = await reader.page(LOG_LIMIT_MAX, ended=ended)
        lines.extend(page.lines)
        if page.complete or not page.moved:
            return replace(page, lines=list(lines))


async def _pyoco_entries(
    reader: LogReader, page: LogPage, *, whole: bool, ended: bool
) -> list[PyocoLogEntry]:
    """The lines for pyoco's own client, which knows no pages; a note says if there are more."""
    entries = [_pyoco_entry(line) for line in page.lines]
    while page.moved and not page.complete and not whole:
        if len(entries) >= LOG_LIMIT_MAX:
            text = f"only the first {LOG_LIMIT_MAX} lines are shown here; pyoco-client logs shows all of them"
            last = entries[-1]
            note = PyocoLogEntry(
                seq=last.seq + 1, task="run", stream="note", text=text, timestamp=last.timestamp
            )
            return [*entries, note]
        page = await reader.page(LOG_LIMIT_MAX - len(entries), ended=ended)
        entries += [_pyoco_entry(line) for line in page.lines]
    return entries


def _pyoco_entry(placed: PlacedLine) -> PyocoLogEntry:
    position, line = placed
    return PyocoLogEntry(
        seq=position.sequence * _LINES_OF_A_BATCH + position.index,
        task=line.task or "run",
        stream=line.stream,
        text=line.text,
        timestamp=line.ts,
    )


async def _followed(gateway: Gateway, run_id: str, after: LogPosition, selected: LogFilter) -> EventSource:
    follower = LogFollower(
        gateway.runs.logs, gateway.runs.store, gateway.runs.hints, run_id, after=after, line_filter=selected
    )
    async with aclosing(follower.lines()) as pages:
        async for lines in pages:
            yield b"".join(_line_event(each) for each in lines)
    yield Event(name="end", data=LogEnd(status=follower.status)).encode()


def _line_event(placed: PlacedLine) -> bytes:
    return Event(name="line", id=str(placed.position), data=_line_view(placed)).encode()


def _line_view(placed: PlacedLine) -> LineView:
    position, line = placed
    return LineView(
        id=str(position),
        ts=line.ts,
        task=line.task,
        stream=line.stream,
        text=line.text,
        attempt=line.attempt,
    )


def _accepts_events(request: Request) -> bool:
    accepted = request.headers.get("accept", "").lower().split(",")
    return any(media_type.partition(";")[0].strip() == MEDIA_TYPE for media_type in accepted)
