"""The runs that have not ended, as the feed reports them."""

from typing import ClassVar

from pyoco_server.runs.sweep.open_runs import AwaitedId, OpenRuns, RunState


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
    runs.on_waiting(lambda run_id, generation: heard.append(("waiting", run_id, generation)))
    runs.on_ended(lambda run_id: heard.append(("ended", run_id)))
    runs.on_ended_waiting(lambda run_id: heard.append(("ended waiting", run_id)))
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
