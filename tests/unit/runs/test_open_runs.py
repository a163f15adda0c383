"""The runs that have not ended, as the feed reports them."""

from typing import ClassVar

from pyoco_server.records.runs.run_models import DeliveryId
from pyoco_server.runs.open_runs import AwaitedId, OpenRuns, RunState


class CountedId(str):
    """Counts how often one of these was looked up."""

    __slots__ = ()
    lookups: ClassVar[int] = 0

    def __hash__(self) -> int:
        CountedId.lookups += 1
        return super().__hash__()


def test_forgetting_a_marker_takes_constant_time() -> None:
    runs = OpenRuns()
    markers = [CountedId(number) for number in range(2000)]
    for run_id in markers:
        runs.remember_marker(run_id)
    CountedId.lookups = 0
    for start in range(0, len(markers), 20):
        runs.forget_markers(markers[start : start + 20])
    assert not runs.markers
    assert CountedId.lookups <= 5 * len(markers)


def test_a_marker_seen_again_is_young() -> None:
    runs = OpenRuns()
    for run_id in ("first", "second"):
        runs.remember_marker(run_id)
    taken = runs.take_markers(older_than_sec=-1.0, most=2)
    runs.remember_marker("first")
    seen_at = runs.markers["first"]
    runs.put_back_markers(taken)
    assert list(runs.markers) == ["second", "first"]
    assert runs.markers["first"] == seen_at
    runs.remember_marker("second")
    assert list(runs.markers) == ["first", "second"]


def test_waits_and_ends_are_reported() -> None:
    runs, heard = OpenRuns(), list[tuple[object, ...]]()
    runs.on_parked(lambda run_id, generation: heard.append(("waiting", run_id, generation)))
    runs.on_ended(lambda run_id: heard.append(("ended", run_id)))
    runs.on_ended_with_waits(lambda run_id: heard.append(("ended waiting", run_id)))
    waiting = RunState("WAITING_HUMAN", 1.0, generation=1, open_waits=(AwaitedId("w"),))
    again = RunState("WAITING_HUMAN", 2.0, generation=2, open_waits=(AwaitedId("w"),))
    runs.apply("answered", 1, RunState("RUNNING", 1.0))
    for revision, state in enumerate((waiting, waiting, again), start=2):
        runs.apply("cancelled", revision, state)
    runs.apply("answered", 5, None)
    runs.apply("cancelled", 6, None)
    assert heard == [
        ("waiting", "cancelled", 1),
        ("waiting", "cancelled", 2),
        ("ended", "answered"),
        ("ended", "cancelled"),
        ("ended waiting", "cancelled"),
    ]
    assert len(runs) == 0


def parked(*waits: str, status: str = "WAITING", generation: int = 1) -> RunState:
    return RunState(status, 1.0, "gpu", generation=generation, open_waits=tuple(map(AwaitedId, waits)))


async def test_parked_runs_are_held_and_not_visited_by_the_sweep() -> None:
    runs = OpenRuns()
    runs.apply("active", 1, RunState("RUNNING", 1.0))
    runs.apply("parked", 2, parked("parked.a", "parked.b"))
    found = runs.get("parked")
    assert found is not None
    assert (found.run_id, found.revision, found.state.tag, found.state.generation) == ("parked", 2, "gpu", 1)
    assert [wait.wait_id for wait in found.state.open_waits] == ["parked.a", "parked.b"]
    assert ("parked" in runs, len(runs), runs.started) == (True, 2, ["parked"])
    assert [run.run_id async for group in runs.active_groups() for run in group] == ["active"]
    assert [run.run_id async for group in runs.groups() for run in group] == ["active", "parked"]
    runs.apply("parked", 3, RunState("RUNNING", 2.0))
    assert [run.run_id async for group in runs.active_groups() for run in group] == ["active", "parked"]
    runs.forget("parked", 3)
    assert "parked" not in runs


def test_a_parked_run_is_silent_since_its_last_write() -> None:
    runs = OpenRuns()
    runs.apply("a", 1, parked("a.w"))
    before = runs.silent_sec("a", 1)
    assert before > 0.0
    assert runs.silent_sec("a", 2) == 0.0
    runs.reset_silence()
    assert runs.get("a") is not None
    runs.reset("another bucket")
    assert runs.get("a") is None


def test_a_run_that_names_other_waits_is_reported() -> None:
    runs, heard = OpenRuns(), list[str]()
    runs.on_waits_changed(heard.append)
    running = RunState("RUNNING", 1.0)
    asking = RunState("RUNNING", 1.0, open_waits=(AwaitedId("a.w"),))
    for revision, (state, reported) in enumerate(
        [
            (running, False),
            (asking, True),
            # A heartbeat.
            (asking, False),
            (parked("a.w"), True),
            (parked("a.w"), False),
            (parked("a.v"), True),
            (running, False),
        ],
        start=1,
    ):
        heard.clear()
        runs.apply("a", revision, state)
        assert heard == (["a"] if reported else []), state


def test_queued_runs_share_their_state() -> None:
    """A hundred thousand runs that have woken take little memory."""
    runs = OpenRuns()
    for number in range(100):
        woken = RunState("PENDING", 1.0 + number, "gpu", generation=2, start_time=number, waited_sec=9.0)
        runs.apply(f"woken-{number}", 1, woken)
        runs.apply(f"new-{number}", 1, RunState("PENDING", 1.0 + number, "gpu"))
    held = {id(run.state): run.state for name in runs._runs if (run := runs.get(name)) is not None}
    assert [(state.tag, state.generation, state.start_time is None) for state in held.values()] == [
        ("gpu", 2, False),
        ("gpu", 0, True),
    ]
    assert sorted(runs.started) == sorted(f"woken-{number}" for number in range(100))


def test_a_state_that_the_sweep_decides_by_is_not_shared() -> None:
    runs = OpenRuns()
    states = (
        RunState("RUNNING", 5.0, delivery=DeliveryId(1, 1)),
        RunState("PENDING", 5.0, delivery=DeliveryId(1, 1), timeout_sec=3.0, used_sec=1.0),
        RunState("PENDING", 5.0, cancel_requested_at=4.0),
        RunState("PENDING", 5.0, open_waits=(AwaitedId("d.w"),)),
        RunState("SCHEDULED", 5.0, start_at=9.0),
    )
    for number, state in enumerate(states):
        runs.apply(str(number), 1, state)
        held = runs.get(str(number))
        assert held is not None
        assert held.state is state


def test_an_id_is_held_once_however_often_its_run_is_written() -> None:
    """A hundred thousand runs that wake are known to several parts: each has the same string."""
    runs, first = OpenRuns(), "".join(["run", "-1"])
    runs.apply(first, 1, RunState("WAITING", 1.0, generation=1, open_waits=(AwaitedId("run-1.w"),)))
    runs.apply("".join(["run-", "1"]), 2, RunState("PENDING", 2.0, generation=1))
    found = runs.get("run-1")
    assert found is not None
    assert found.run_id is first
    assert runs.shared_id("".join(["r", "un-1"])) is first
    assert runs.shared_id("other") == "other"
