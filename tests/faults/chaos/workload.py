"""The workload: an endless sequence of submissions, drawn from a seed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

# What has to be executed to the end before a run may be COMPLETED, by flow; keys as in the journal.
TASKS: Mapping[str, frozenset[str]] = {
    "noop": frozenset({"only||0"}),
    "chain": frozenset({"one||0", "two||0", "three||0", "four||0"}),
    "loop": frozenset({"before||0", *(f"turn|repeat[{turn}]|0" for turn in range(3)), "after||0"}),
    "steps": frozenset(
        {"before||0", *(f"in_steps||0|{step}|0" for step in ("first", "second", "third")), "after||0"}
    ),
    "branches": frozenset({"start||0", "left||0", "right||0", "end||0"}),
    "cancellable": frozenset({"before||0", "until_cancelled||0", "after||0"}),
    "uncancellable": frozenset({"before||0", "ignore_cancel||0"}),
    "sleeper": frozenset({"before||0", "asleep||0", "after||0"}),
}
# These end by a cancel only.
ENDLESS = frozenset({"cancellable", "uncancellable"})
# These are parked for some seconds.
SLEEPING = frozenset({"sleeper"})


@dataclass(frozen=True, slots=True)
class Mix:
    """How submissions are drawn."""

    weights: Mapping[str, float]
    # A task takes up to this long.
    task_sec: float
    # Which part of the submissions has an idempotency key, and which part of these is sent once more.
    keyed: float = 0.5
    repeated: float = 0.3
    # Which part of the runs that would end by themselves is cancelled nevertheless.
    cancelled: float = 0.05
    # A cancel comes up to this long after the submission.
    cancel_within_sec: float = 0.5


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One submission. Its number is in the run's params, so that runs can be assigned to their submission."""

    number: int
    flow: str
    task_sec: float
    key: str | None
    repeat: bool
    cancel_after_sec: float | None

    @property
    def body(self) -> dict[str, Any]:
        return {"flow_name": self.flow, "params": {"number": self.number, "task_sec": self.task_sec}}


def draw(mix: Mix, seed: str) -> Iterator[PlannedRun]:
    rng = Random(seed)
    flows, weights = list(mix.weights), list(mix.weights.values())
    number = 0
    while True:
        flow = rng.choices(flows, weights)[0]
        # A submission without a key and without an answer may have made a run that nobody will ever cancel.
        keyed = rng.random() < mix.keyed or flow in ENDLESS
        cancelled = rng.random() < mix.cancelled or flow in ENDLESS
        yield PlannedRun(
            number=number,
            flow=flow,
            task_sec=round(rng.uniform(0, mix.task_sec), 4),
            key=f"{seed}-{number}" if keyed else None,
            repeat=keyed and rng.random() < mix.repeated,
            cancel_after_sec=rng.uniform(0, mix.cancel_within_sec) if cancelled else None,
        )
        number += 1
