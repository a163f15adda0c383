"""Statistics of flows and of periods from roll-ups, compared with those of the runs themselves."""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from pyoco_server.records.runs.run_models import RunSnapshot, RunStatus, encode, new_run_id
from pyoco_server.runs.index import index_schema as schema
from pyoco_server.runs.index.index_writer import IndexWriter, RunWrite
from pyoco_server.runs.index.run_summary import RunItem, summary_of
from pyoco_server.runs.index.sqlite.index_file import IndexFile
from pyoco_server.runs.index.statistics.flow_rollups import DAY, FIVE_MINUTES, HOUR, LAST_DAY, WINDOWS, Window
from pyoco_server.runs.index.statistics.flow_statistics import (
    HISTORY,
    FlowHistory,
    FlowStatistics,
    Quantiles,
    history_of_flow,
    statistics_by_flow,
)
from pyoco_server.runs.index.statistics.period_statistics import (
    PERIODS,
    Figures,
    PeriodStatistics,
    period_statistics,
)
from pyoco_server.runs.index.statistics.time_histogram import (
    bin_of,
    histogram,
    packed,
    quantiles_ms,
    unpacked,
)
from pyoco_server.runs.open_runs import decode_state

NOW = 1_800_000_000.0
FLOWS = ("load", "report")
TAGS = ("default", "gpu")
TENANTS = (None, "acme", "umbrella")
ENDED = (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED)


class Bucket:
    """A bucket of runs and its index, with the runs that should be counted."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.now = NOW
        self._revision = 0
        # The newest write of each run.
        self._stored: dict[str, RunWrite] = {}
        self._deleted: list[RunItem] = []
        self._open()
        self._writer.begin("now")
        self._writer.complete()

    def _open(self) -> None:
        self._file = IndexFile(self._folder, schema.SCHEMA)
        self.db = self._file.writer()
        self._writer = IndexWriter(self.db, clock=lambda: self.now)

    def close(self) -> None:
        self._writer.close()
        self._file.release()

    def restart(self) -> None:
        self.close()
        self._open()

    def rebuild(self) -> None:
        """Runs that were deleted before are not known any more."""
        self._deleted.clear()
        self._writer.begin("now")
        self.apply(self._stored.values())
        self._writer.complete()

    def write(self, snapshots: Sequence[RunSnapshot]) -> None:
        writes = [self._seen(snapshot) for snapshot in snapshots]
        self._stored |= {write.run_id: write for write in writes}
        self.apply(writes)

    def repeat(self) -> None:
        """The feed delivers everything once more."""
        self.apply(self._stored.values())

    def delete(self, run_id: str, *, marker: bool = True) -> None:
        write = self._stored.pop(run_id, None)
        if write is None:
            return
        if write.summary is not None:
            self._deleted.append(write.summary.item)
        if marker:
            self._revision += 1
            self.apply([RunWrite(run_id, self._revision, None, deleted=True)])
        else:
            self._writer.drop([write.revision])

    def damage(self, run_id: str) -> None:
        """The run's record cannot be read any more."""
        if run_id in self._stored:
            self._revision += 1
            self._stored[run_id] = RunWrite(run_id, self._revision, b"?", problem="no JSON")
            self.apply([self._stored[run_id]])

    def fail(self) -> None:
        """A batch that is rolled back: its last write has the revision of another run."""
        taken = next((write.revision for write in self._stored.values() if write.summary), None)
        if taken is not None:
            batch = [self._seen(run()), structs.replace(self._seen(run()), revision=taken)]
            with pytest.raises(sqlite3.IntegrityError):
                self.apply(batch)

    def roll_up(self) -> None:
        self._writer.write_rollups()

    def apply(self, writes: Iterable[RunWrite]) -> None:
        self._writer.apply(list(writes), upto=self._revision)

    def _seen(self, snapshot: RunSnapshot) -> RunWrite:
        self._revision += 1
        data = encode(snapshot)
        state = None if snapshot.status.terminal else decode_state(data)
        return RunWrite(snapshot.run_id, self._revision, data, summary_of(data), state)

    @property
    def rolled_up(self) -> int:
        """The revision up to which rows were written."""
        [(revision,)] = self.db.execute("SELECT rolled_up FROM held")
        return int(revision)

    @property
    def listed(self) -> list[RunItem]:
        return [write.summary.item for write in self._stored.values() if write.summary is not None]

    @property
    def counted(self) -> list[RunItem]:
        return [*self.listed, *(run for run in self._deleted if RunStatus(run.status).terminal)]

    def by_flow(self, tenant: str | None = None, tag: str | None = None) -> dict[str, FlowStatistics]:
        self.roll_up()
        return statistics_by_flow(self.db, self.now, tenant=tenant, tag=tag)

    def history(self, flow: str, tenant: str | None = None, tag: str | None = None) -> FlowHistory | None:
        self.roll_up()
        return history_of_flow(self.db, flow, self.now, tenant=tenant, tag=tag)

    def of_period(
        self, period: str, *, tenant: str | None = None, flow: str | None = None, tag: str | None = None
    ) -> PeriodStatistics:
        self.roll_up()
        return period_statistics(self.db, period, self.now, most=10, tenant=tenant, flow=flow, tag=tag)


@contextmanager
def bucket() -> Iterator[Bucket]:
    with TemporaryDirectory() as folder:
        made = Bucket(Path(folder))
        try:
            yield made
        finally:
            made.close()


def run(
    status: RunStatus = RunStatus.COMPLETED,
    *,
    run_id: str | None = None,
    at: float = NOW,
    flow: str = "load",
    tag: str = "default",
    tenant: str | None = None,
    took: float | None = 1.0,
    waited: float = 0.5,
) -> RunSnapshot:
    """A run that was written last at this time; without `took`, it was never started."""
    started = None if took is None else at - took
    return RunSnapshot(
        run_id=run_id or new_run_id(),
        flow_name=flow,
        status=status,
        params={},
        tasks={},
        heartbeat_at=at,
        updated_at=at,
        tag=tag,
        tags=[tag],
        tenant_id=tenant,
        submitted_at=(at if started is None else started) - waited,
        start_time=started,
        end_time=at if status.terminal else None,
        error="broken" if status is RunStatus.FAILED else None,
    )


# The same, computed from each run


def expected(runs: Sequence[RunItem], window: Window, now: float) -> dict[str, object]:
    since = window.since(now)
    latest = (now // window.bucket_sec + 1) * window.bucket_sec
    ended = [run for run in runs if RunStatus(run.status).terminal and since <= run.updated_at < latest]
    open_now = [run for run in runs if not RunStatus(run.status).terminal]
    good, bad = ([run for run in ended if run.status == status] for status in ENDED[:2])
    buckets = range(since, int(now) + 1, window.bucket_sec)

    def per_bucket(status: RunStatus) -> list[int]:
        own = [run.updated_at for run in ended if run.status == status]
        return [sum(start <= at < start + window.bucket_sec for at in own) for start in buckets]

    return {
        "window": window.name,
        "since": since,
        "bucket_sec": window.bucket_sec,
        "statuses": dict(Counter(run.status for run in (*ended, *open_now))),
        "success_rate": len(good) / len(good + bad) if good or bad else None,
        "completed": per_bucket(RunStatus.COMPLETED),
        "failed": per_bucket(RunStatus.FAILED),
        "cancelled": per_bucket(RunStatus.CANCELLED),
        "durations": [run.duration_sec for run in good + bad if run.duration_sec is not None],
        "queue_times": [run.queue_sec for run in ended if run.queue_sec is not None],
    }


def nearest_rank_ms(seconds: list[float], share: float) -> float | None:
    return sorted(seconds)[max(1, ceil(share * len(seconds))) - 1] * 1000 if seconds else None


def is_near(found: float | None, exact: float | None) -> bool:
    if found is None or exact is None:
        return found is exact
    return found == 0.5 if exact < 1 else abs(found / exact - 1) < 0.045


def check(found: FlowStatistics, runs: Sequence[RunItem], window: Window, now: float) -> None:
    exact = expected(runs, window, now)
    for quantiles, of in ((found.duration_ms, "durations"), (found.queue_ms, "queue_times")):
        times: list[float] = exact.pop(of)  # type: ignore[assignment]
        assert is_near(quantiles.p50, nearest_rank_ms(times, 0.5))
        assert is_near(quantiles.p95, nearest_rank_ms(times, 0.95))
    assert {name: getattr(found, name) for name in exact} == exact


def check_figures(found: Figures, runs: Sequence[RunItem], seconds: float) -> None:
    """That they are those of these runs, which all have ended."""
    good, bad, cancelled = ([run for run in runs if run.status == status] for status in ENDED)
    assert (found.completed, found.failed, found.cancelled) == (len(good), len(bad), len(cancelled))
    assert found.per_hour == pytest.approx(len(runs) * 3600 / seconds)
    assert found.success_rate == (len(good) / len(good + bad) if good or bad else None)
    durations = [run.duration_sec for run in good + bad if run.duration_sec is not None]
    queue_times = [run.queue_sec for run in runs if run.queue_sec is not None]
    for quantiles, times in ((found.duration_ms, durations), (found.queue_ms, queue_times)):
        assert is_near(quantiles.p50, nearest_rank_ms(times, 0.5))
        assert is_near(quantiles.p95, nearest_rank_ms(times, 0.95))


def check_period(found: PeriodStatistics, runs: Sequence[RunItem], now: float) -> None:
    window = PERIODS[found.period]
    since, step = window.since(now), window.bucket_sec
    ended = [run for run in runs if RunStatus(run.status).terminal]

    def between(start: float, end: float) -> list[RunItem]:
        return [run for run in ended if start <= run.updated_at < end]

    assert (found.since, found.bucket_sec) == (since, step)
    lasts = (now - since, window.length_sec)
    # The bucket that is not over has runs whose time is after `now`, of a worker whose clock is ahead.
    current, previous = between(since, (now // step + 1) * step), between(since - window.length_sec, since)
    check_figures(found.total.current, current, lasts[0])
    check_figures(found.total.previous, previous, lasts[1])
    for figures, start in zip(found.current, range(since, int(now) + 1, step), strict=True):
        check_figures(figures, between(start, start + step), step)
    for figures, start in zip(found.previous, range(since - window.length_sec, since, step), strict=True):
        check_figures(figures, between(start, start + step), step)
    for by_name, attribute in ((found.flows, "flow_name"), (found.tags, "tag")):
        assert {each.name for each in by_name} == {getattr(run, attribute) for run in current + previous}
        counts = []
        for each in by_name:
            own = [run for run in current if getattr(run, attribute) == each.name]
            before = [run for run in previous if getattr(run, attribute) == each.name]
            check_figures(each.current, own, lasts[0])
            check_figures(each.previous, before, lasts[1])
            for status, per_bucket in zip(ENDED, (each.completed, each.failed, each.cancelled), strict=True):
                times = [run.updated_at for run in own if run.status == status]
                starts = range(since, int(now) + 1, step)
                assert per_bucket == [sum(start <= at < start + step for at in times) for start in starts]
            counts.append((len(own), len(before)))
        assert counts == sorted(counts, reverse=True)
    assert (found.flow_count, found.tag_count) == (len(found.flows), len(found.tags))


def check_all(index: Bucket) -> None:
    """For each caller and each tag: all flows of 24 hours, each flow over all windows, and each period."""
    for tenant in TENANTS:
        for tag in (None, *TAGS):
            visible = [
                run
                for run in index.counted
                if tenant in (None, run.tenant_id) and tag in (None, run.tag)
            ]  # fmt: skip
            for period in PERIODS:
                check_period(index.of_period(period, tenant=tenant, tag=tag), visible, index.now)
            by_flow = index.by_flow(tenant, tag)
            for flow in FLOWS:
                own = [run for run in visible if run.flow_name == flow]
                check_period(index.of_period("7d", tenant=tenant, tag=tag, flow=flow), own, index.now)
                exists = [run for run in index.listed if run in own]
                history = index.history(flow, tenant, tag)
                if flow in by_flow:
                    check(by_flow[flow], own, LAST_DAY, index.now)
                else:
                    assert not exists
                    assert not expected(own, LAST_DAY, index.now)["statuses"]
                if history is None:
                    assert not exists
                    assert not expected(own, WINDOWS[-1], index.now)["statuses"]
                    continue
                for window in HISTORY:
                    check(history.windows[window.name], own, window, index.now)
                failures = [run.updated_at for run in exists if run.status == RunStatus.FAILED]
                assert [run.updated_at for run in history.last_failures] == sorted(failures)[-10:][::-1]


RUN_IDS = [new_run_id() for _ in range(5)]
AGES = st.one_of(
    st.floats(-2 * HOUR, 2 * DAY),
    st.floats(0, 3 * HOUR),
    st.floats(0, 70 * DAY),
    st.sampled_from([0.0, *(window.length_sec for window in WINDOWS), NOW - LAST_DAY.since(NOW)]),
    st.sampled_from([NOW - window.since_before(NOW) for window in WINDOWS]),
)
SECONDS = st.one_of(st.floats(0, 100), st.floats(0, 1e-3), st.floats(0, 40 * DAY))
WRITES = st.builds(
    lambda run_id, status, age, flow, tag, tenant, took, waited: (
        "write",
        run(status, run_id=run_id, at=NOW - age, flow=flow, tag=tag, tenant=tenant, took=took, waited=waited),
    ),
    st.sampled_from(RUN_IDS),
    st.sampled_from([*ENDED, RunStatus.RUNNING, RunStatus.PENDING]),
    AGES,
    st.sampled_from(FLOWS),
    st.sampled_from(TAGS),
    st.sampled_from(TENANTS),
    st.none() | SECONDS,
    SECONDS,
)
STEPS = st.one_of(
    WRITES,
    WRITES,
    WRITES,
    st.tuples(st.sampled_from(["delete", "drop", "damage"]), st.sampled_from(RUN_IDS)),
    st.tuples(st.just("advance"), st.floats(0, 3 * DAY)),
    st.tuples(st.sampled_from(["repeat", "restart", "rebuild", "fail", "roll_up", "flush"]), st.none()),
)


@given(st.lists(STEPS, max_size=25))
def test_roll_ups_equal_a_computation_over_the_runs(steps: list[tuple[str, object]]) -> None:
    with bucket() as index:
        together: list[RunSnapshot] = []
        for what, value in [*steps, ("flush", None)]:
            if what == "write":
                assert isinstance(value, RunSnapshot)
                together.append(value)
                continue
            index.write(together)
            together = []
            if what in ("delete", "drop", "damage"):
                assert isinstance(value, str)
                {
                    "delete": index.delete,
                    "drop": lambda run_id: index.delete(run_id, marker=False),
                    "damage": index.damage,
                }[what](value)
            elif what == "advance":
                assert isinstance(value, float)
                index.now += value
            elif what != "flush":
                getattr(index, what)()
        check_all(index)


@given(st.lists(st.floats(0, 49 * DAY), min_size=1), st.floats(0.01, 1))
def test_a_quantile_differs_by_less_than_the_promised_error(times: list[float], share: float) -> None:
    counts = sum(histogram(bin_of(seconds)) for seconds in times)
    assert unpacked(packed(counts)) == counts
    assert is_near(quantiles_ms(counts, share)[0], nearest_rank_ms(times, share))


@pytest.mark.parametrize("seconds", [0.0, 0.0009, 0.001, 1.0, 49 * DAY, 1e12])
def test_every_duration_has_a_bin(seconds: float) -> None:
    [found] = quantiles_ms(histogram(bin_of(seconds)), 0.5)
    assert is_near(found, min(seconds, 2**32 / 1000) * 1000)


def test_without_runs_there_is_nothing() -> None:
    with bucket() as index:
        assert index.by_flow() == {}
        assert index.history("load") is None


def test_a_flow_with_old_runs_only_is_listed_without_figures() -> None:
    with bucket() as index:
        index.write([run(RunStatus.FAILED, at=NOW - 90 * DAY), run(RunStatus.FAILED, at=NOW - 91 * DAY)])
        statistics = index.by_flow()["load"]
        assert (statistics.statuses, statistics.success_rate) == ({}, None)
        assert statistics.duration_ms == statistics.queue_ms == Quantiles()
        history = index.history("load")
        assert history is not None
        # They are the last failures, however old they are.
        assert len(history.last_failures) == 2


def test_a_run_that_is_retried_after_its_failure_counts_as_it_ends_then() -> None:
    with bucket() as index:
        failed = run(RunStatus.FAILED, at=NOW - 2 * HOUR)
        index.write([failed])
        assert index.by_flow()["load"].statuses == {"FAILED": 1}
        index.write([run(RunStatus.WAITING_HUMAN, run_id=failed.run_id, at=NOW - HOUR)])
        assert index.by_flow()["load"].statuses == {"WAITING_HUMAN": 1}
        index.write([run(run_id=failed.run_id, at=NOW)])
        statistics = index.by_flow()["load"]
        assert (statistics.statuses, statistics.success_rate) == ({"COMPLETED": 1}, 1.0)
        assert sum(statistics.failed) == 0


def test_a_deleted_run_stays_counted_until_its_window_is_over() -> None:
    with bucket() as index:
        deleted = run(RunStatus.FAILED)
        index.write([deleted])
        index.delete(deleted.run_id)
        assert index.by_flow()["load"].statuses == {"FAILED": 1}
        history = index.history("load")
        assert history is not None
        assert history.last_failures == []
        index.now += 2 * DAY
        assert index.by_flow() == {}
        assert index.history("load") is not None
        index.now += 30 * DAY
        assert index.history("load") is None


def test_rows_that_no_window_needs_are_removed() -> None:
    with bucket() as index:
        for _ in range(75):
            index.write([run(at=index.now), run(RunStatus.FAILED, at=index.now, flow="report")])
            index.roll_up()
            index.now += DAY
        rows = Counter(
            period for (period,) in index.db.execute("SELECT period_sec FROM rollups WHERE grp > 0")
        )
        # Of twice the length of each window.
        assert rows == {FIVE_MINUTES: 2 * 1, HOUR: 2 * 3, 6 * HOUR: 2 * 15, DAY: 2 * 61}


def test_a_slower_week_is_seen_beside_the_one_before() -> None:
    with bucket() as index:
        for day in range(14):
            took = 20.0 if day < 7 else 10.0
            index.write(
                [run(at=NOW - day * DAY - 60, took=took), run(at=NOW - day * DAY - 60, flow="report")]
            )
        week = index.of_period("7d", flow="load")
        assert is_near(week.total.current.duration_ms.p50, 20_000)
        assert is_near(week.total.previous.duration_ms.p50, 10_000)
        assert [each.name for each in week.flows] == ["load"]


def test_only_the_busiest_flows_are_named_and_all_are_counted() -> None:
    with bucket() as index:
        for number in range(5):
            index.write([run(flow=f"flow-{number}") for _ in range(number + 1)])
        index.write([run(flow="before", at=NOW - 36 * HOUR)])
        index.roll_up()
        day = period_statistics(index.db, "24h", NOW, most=2)
        assert [each.name for each in day.flows] == ["flow-4", "flow-3"]
        assert (day.flow_count, day.tag_count) == (6, 1)
        assert (day.total.current.completed, day.total.previous.completed) == (15, 1)


def test_many_ended_runs_are_written_without_being_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyoco_server.runs.index.statistics.flow_rollups._MOST_PENDING", 3)
    with bucket() as index:
        index.write([run(), run()])
        assert index.rolled_up == 0
        index.write([run()])
        assert index.rolled_up == 3
        assert index.by_flow()["load"].statuses == {"COMPLETED": 3}


def test_a_clock_that_went_back_does_no_harm() -> None:
    with bucket() as index:
        ended = run(RunStatus.FAILED)
        index.now += 400 * DAY
        # Too old to be counted.
        index.write([ended])
        index.now = NOW
        index.write([run(RunStatus.WAITING_HUMAN, run_id=ended.run_id), run(RunStatus.FAILED)])
        assert index.by_flow()["load"].statuses == {"FAILED": 1, "WAITING_HUMAN": 1}
