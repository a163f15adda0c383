"""Delayed starts: what is due is released in bounded batches, and what fails is tried again."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import pytest

from pyoco_server.aio.urgent_work import UrgentWork
from pyoco_server.errors import NatsUnavailable
from pyoco_server.runs.lifecycle.unowned_runs import UnownedRuns
from pyoco_server.runs.open_runs import OpenRuns, RunState
from pyoco_server.runs.sweep.delayed_starts import DelayedStarts


@dataclass
class ReleasedRuns:
    runs: OpenRuns
    released: list[str] = field(default_factory=list)
    failures: dict[str, Exception] = field(default_factory=dict)
    at_once: int = 0
    most_at_once: int = 0

    async def signed_runs(self, run_ids: Sequence[str]) -> dict[str, str]:
        return {run_id: f"read {run_id}" for run_id in run_ids}

    async def release(self, run_id: str, now: float, read: str) -> bool:
        assert read == f"read {run_id}"
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        if run_id in self.failures:
            raise self.failures.pop(run_id)
        self.released.append(run_id)
        self.runs.apply(run_id, 2, RunState(status="PENDING", heartbeat_at=now, start_at=now))
        return True


class Starts:
    def __init__(self) -> None:
        self.runs = OpenRuns()
        self.unowned_runs = ReleasedRuns(self.runs)
        self.source = DelayedStarts(cast(UnownedRuns, self.unowned_runs), self.runs, UrgentWork())
        self.woken = 0
        self.runs.on_scheduled(self._on_scheduled)

    def _on_scheduled(self, run_id: str, start_at: float) -> None:
        self.woken += self.source.add(run_id, start_at)

    def store(self, run_id: str, start_at: float, *, revision: int = 1, status: str = "SCHEDULED") -> None:
        self.runs.apply(run_id, revision, RunState(status=status, heartbeat_at=0.0, start_at=start_at))


@pytest.fixture
def starts() -> Starts:
    return Starts()


async def test_what_is_due_is_released_in_the_order_of_its_time(starts: Starts) -> None:
    for run_id, start_at in (("c", 30.0), ("a", 10.0), ("b", 20.0)):
        starts.store(run_id, start_at)
    assert await starts.source.run_due(9.0) == 10.0
    assert starts.unowned_runs.released == []
    assert await starts.source.run_due(20.0) == 30.0
    assert starts.unowned_runs.released == ["a", "b"]
    assert await starts.source.run_due(40.0) is None
    assert starts.unowned_runs.released == ["a", "b", "c"]


async def test_the_timekeeper_is_woken_for_an_earlier_start_only(starts: Starts) -> None:
    starts.store("a", 10.0)
    starts.store("b", 20.0)
    assert starts.woken == 1
    starts.store("c", 5.0)
    assert starts.woken == 2


async def test_a_run_that_was_cancelled_or_written_twice_is_released_at_most_once(starts: Starts) -> None:
    for run_id in "abc":
        starts.store(run_id, 10.0)
    starts.store("a", 10.0, revision=2)
    starts.store("b", 10.0, revision=2, status="CANCELLING")
    starts.runs.apply("c", 2, None)
    assert await starts.source.run_due(10.0) is None
    assert starts.unowned_runs.released == ["a"]


async def test_ten_thousand_that_are_due_at_once_are_released_in_batches(starts: Starts) -> None:
    for number in range(10_000):
        starts.store(f"run-{number}", 10.0)
    calls = 0
    next_at: float | None = 0.0
    while next_at is not None:
        before = len(starts.unowned_runs.released)
        next_at = await starts.source.run_due(11.0)
        assert len(starts.unowned_runs.released) - before <= 256
        calls += 1
    assert calls == 40
    assert len(set(starts.unowned_runs.released)) == len(starts.unowned_runs.released) == 10_000
    assert starts.unowned_runs.most_at_once <= 8


async def test_an_outage_loses_none(starts: Starts) -> None:
    names = [f"run-{number:03}" for number in range(100)]
    for name in names:
        starts.store(name, 10.0)
    starts.unowned_runs.failures = {names[5]: NatsUnavailable("away"), names[6]: NatsUnavailable("away")}
    with pytest.raises(NatsUnavailable):
        await starts.source.run_due(10.0)
    # What had begun with them is completed and not tried again; nothing else began.
    begun = starts.unowned_runs.released.copy()
    assert set(names[:5]) < set(begun) < set(names[:32])
    assert await starts.source.run_due(10.0) is None
    assert sorted(starts.unowned_runs.released) == names
    assert starts.unowned_runs.released[: len(begun)] == begun


async def test_one_that_cannot_be_released_stops_no_other(
    starts: Starts, caplog: pytest.LogCaptureFixture
) -> None:
    starts.unowned_runs.failures = {"a": ValueError("odd")}
    for run_id in "ab":
        starts.store(run_id, 10.0)
    assert await starts.source.run_due(10.0) == 15.0
    assert starts.unowned_runs.released == ["b"]
    assert "cannot be released" in caplog.text
    assert await starts.source.run_due(15.0) is None
    assert starts.unowned_runs.released == ["b", "a"]
