"""Pages of a log in memory: no line is lost or repeated."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.broker.stores.runs.run_log_store import LogBatch, RunLogs
from pyoco_server.errors import InvalidRequest, NatsUnavailable
from pyoco_server.http_client.event_stream import ServerSentEvent, events_in
from pyoco_server.records.runs.log_models import LogLine
from pyoco_server.runs.watch import log_reading
from pyoco_server.runs.watch.log_reading import (
    START,
    LogFilter,
    LogPage,
    LogPosition,
    LogReader,
    PlacedLine,
    lines_before,
)


class LogInMemory(RunLogs):
    """What the stream holds: batches of lines, at sequences that other runs' batches lie between."""

    def __init__(self, *batches: list[LogLine], fails_at_read: int = 0) -> None:
        self.batches = [LogBatch(3 * (index + 1), lines, 100) for index, lines in enumerate(batches)]
        self.reads = 0
        self._fails_at_read = fails_at_read

    async def read(self, run_id: str, *, after: int, limit: int, max_bytes: int) -> list[LogBatch]:
        self.reads += 1
        if self.reads == self._fails_at_read:
            raise NatsUnavailable("gone")
        # Two at a time, so that every page needs several reads.
        return [batch for batch in self.batches if batch.sequence > after][: min(limit, 2)]

    async def last_sequence(self, run_id: str) -> int:
        return self.batches[-1].sequence if self.batches else 0


def line(text: str, task: str | None = "load", stream: str = "stdout") -> LogLine:
    return LogLine(ts=1.0, stream=stream, text=text, task=task)


def texts(page: LogPage) -> list[str]:
    return [placed.line.text for placed in page.lines]


LINES = st.builds(
    line, st.text(max_size=3), st.sampled_from(["a", "b", None]), st.sampled_from(["stdout", "note"])
)
FILTERS = st.builds(
    LogFilter,
    tasks=st.frozensets(st.sampled_from(["a", "b"])),
    streams=st.frozensets(st.sampled_from(["stdout", "note"])),
    search=st.text(max_size=1),
)


@given(
    batches=st.lists(st.lists(LINES, max_size=4), max_size=8), line_filter=FILTERS, limit=st.integers(1, 5)
)
async def test_paging_returns_each_matching_line_once_in_order(
    batches: list[list[LogLine]], line_filter: LogFilter, limit: int
) -> None:
    log, found, after = LogInMemory(*batches), list[LogLine](), START
    while True:
        # As a client does it: each page by a reader of its own, from the position of the page before.
        page = await LogReader(log, "run", after=after, line_filter=line_filter).page(limit, ended=True)
        assert len(page.lines) <= limit
        assert page.moved == (page.position != after)
        found += [placed.line for placed in page.lines]
        after = page.position
        if page.complete:
            break
        assert page.moved
    assert found == [each for batch in batches for each in batch if line_filter.matches(each)]


@given(batches=st.lists(st.lists(LINES, max_size=4), max_size=8), limit=st.integers(1, 5))
async def test_a_reader_continues_where_its_page_ended(batches: list[list[LogLine]], limit: int) -> None:
    reader, found = LogReader(LogInMemory(*batches), "run"), list[LogLine]()
    while not (page := await reader.page(limit, ended=True)).complete:
        found += [placed.line for placed in page.lines]
    found += [placed.line for placed in page.lines]
    assert found == [each for batch in batches for each in batch]


async def test_a_failed_page_is_read_again_completely() -> None:
    log = LogInMemory([line("a"), line("b")], [line("c")], [line("d")], fails_at_read=2)
    reader = LogReader(log, "run")
    with pytest.raises(NatsUnavailable):
        await reader.page(10, ended=True)
    assert texts(await reader.page(10, ended=True)) == ["a", "b", "c", "d"]


async def test_a_page_without_matches_ends_with_its_position(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_reading, "MAX_BATCHES", 4)
    log = LogInMemory(*[[line("no")]] * 20, [line("yes")])
    reader = LogReader(log, "run", line_filter=LogFilter(search="yes"))
    page = await reader.page(10, ended=True)
    assert (page.lines, page.position, page.moved, page.complete) == ([], LogPosition(12, 0), True, False)
    assert log.reads == 2


async def test_a_page_of_large_batches_ends_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_reading, "MAX_BYTES", 300)  # each batch is 100 here, and two are read at once
    page = await LogReader(LogInMemory(*[[line("x")]] * 20), "run").page(100, ended=True)
    assert len(page.lines) == 4


async def test_even_the_smallest_page_makes_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_reading, "MAX_BYTES", 1)
    monkeypatch.setattr(log_reading, "MAX_BATCHES", 1)
    log, after, seen = LogInMemory(*[[line("no")]] * 5), START, 0
    while not (
        page := await LogReader(log, "run", after=after, line_filter=LogFilter(search="x")).page(
            1, ended=True
        )
    ).complete:
        assert page.moved
        after, seen = page.position, seen + 1
    assert seen > 1


async def test_a_lagging_replica_does_not_complete_a_log() -> None:
    class Lagging(LogInMemory):
        async def last_sequence(self, run_id: str) -> int:
            return 99

    page = await LogReader(Lagging([line("a")]), "run").page(10, ended=True)
    assert (texts(page), page.complete) == (["a"], False)


async def test_the_log_of_a_running_run_is_never_complete() -> None:
    page = await LogReader(LogInMemory([line("a")]), "run").page(10, ended=False)
    assert (texts(page), page.complete) == (["a"], False)


@pytest.mark.parametrize(
    ("line_filter", "matches"),
    [
        (LogFilter(), {"Straße", "late", "lost"}),
        (LogFilter(search="STRASSE"), {"Straße"}),
        (LogFilter(search="l"), {"late", "lost"}),
        (LogFilter(tasks=frozenset({"load"})), {"Straße"}),
        (LogFilter(tasks=frozenset({"load", "save"})), {"Straße", "late"}),
        (LogFilter(streams=frozenset({"stderr", "note"})), {"late", "lost"}),
        (LogFilter(tasks=frozenset({"save"}), streams=frozenset({"note"})), set()),
    ],
    # The texts of sets differ from process to process.
    ids=["all", "folded", "search", "task", "tasks", "streams", "none"],
)
def test_a_line_matches_when_every_part_of_the_filter_does(line_filter: LogFilter, matches: set[str]) -> None:
    lines = [line("Straße"), line("late", "save", "stderr"), line("lost", None, "note")]
    assert {each.text for each in lines if line_filter.matches(each)} == matches


@given(st.integers(0, 10**18 - 1), st.integers(0, 10**9 - 1))
def test_a_line_id_round_trips(sequence: int, index: int) -> None:
    position = LogPosition(sequence, index)
    assert LogPosition.parse(str(position), field="after") == position


@pytest.mark.parametrize(
    "text", ["", "1", "1-", "-1", "a-b", "1-2-3", " 1-2", "1-2\n", "١-٢", "9" * 19 + "-0"]
)
def test_an_invalid_line_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        LogPosition.parse(text, field="after")
    (problem,) = refused.value.problems
    assert (problem.field, problem.message) == ("after", "expected the id of a line, such as 12-0")
    assert problem.value == repr(text)


STREAM = (
    'id: 1-0\nevent: line\ndata: {"text": "a\u2028b\x85c\x0bd"}\n\n: keepalive\n\n'
    "event: tick\r\ndata: 1\r\ndata:2\r\n\r\n"
    "data: cut off"
).encode()


@given(st.lists(st.integers(0, len(STREAM)), max_size=5))
def test_events_are_parsed_in_any_chunking(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(STREAM)]
    chunks = [STREAM[start:end] for start, end in pairwise(places)]
    assert list(events_in(chunks)) == [
        ServerSentEvent("line", '{"text": "a\u2028b\x85c\x0bd"}', "1-0"),
        ServerSentEvent("tick", "1\n2", "1-0"),
    ]


def placed(log: LogInMemory, line_filter: LogFilter) -> list[PlacedLine]:
    return [
        PlacedLine(LogPosition(batch.sequence, index), each)
        for batch in log.batches
        for index, each in enumerate(batch.lines)
        if line_filter.matches(each)
    ]


@given(
    batches=st.lists(st.lists(LINES, max_size=4), max_size=8),
    line_filter=FILTERS,
    limit=st.integers(1, 5),
    step=st.integers(1, 10),
)
async def test_paging_backwards_returns_each_matching_line_once(
    batches: list[list[LogLine]], line_filter: LogFilter, limit: int, step: int
) -> None:
    log, found = LogInMemory(*batches), list[PlacedLine]()
    before: LogPosition | None = LogPosition(1000, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_reading, "_FIRST_STEP", step)
        while before is not None:
            page = await lines_before(log, "run", before, limit, line_filter)
            assert len(page.lines) <= limit
            assert page.start is None or page.start < before
            found[:0] = page.lines
            before = page.start
    assert found == placed(log, line_filter)


@given(batches=st.lists(st.lists(LINES, min_size=1, max_size=4), min_size=1, max_size=8), data=st.data())
async def test_the_lines_before_and_from_a_line_are_the_log(
    batches: list[list[LogLine]], data: st.DataObject
) -> None:
    log = LogInMemory(*batches)
    all_lines = placed(log, LogFilter())
    chosen = data.draw(st.sampled_from(all_lines))
    earlier = await lines_before(log, "run", chosen.position, 1000, LogFilter())
    later = await LogReader(log, "run", after=chosen.position.just_before).page(1000, ended=True)
    assert earlier.start is None
    assert later.lines[0] == chosen
    assert earlier.lines + later.lines == all_lines


async def test_reading_backwards_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_reading, "MAX_BATCHES", 3)
    monkeypatch.setattr(log_reading, "_FIRST_STEP", 3)
    log = LogInMemory(*[[line("x")] for _ in range(20)])
    page = await lines_before(log, "run", LogPosition(61, 0), 5, LogFilter(search="y"))
    assert page.lines == []
    assert page.start is not None
    assert log.reads < 8


async def test_a_place_far_behind_the_last_line_does_not_read_the_whole_log() -> None:
    log = LogInMemory(*[[line(f"{number}")] for number in range(1000)])
    page = await lines_before(log, "run", LogPosition(10**18 - 1, 0), 1, LogFilter())
    assert [each.line.text for each in page.lines] == ["999"]
    assert log.reads < 20
