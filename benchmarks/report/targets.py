"""The targets of the product, and whether they are met."""

from dataclasses import dataclass

from benchmarks.comparison.measures import FEW_RUNS, SUSTAINED_SEC
from benchmarks.peers.peer import SLOTS
from benchmarks.report.results import Results


@dataclass(frozen=True)
class AtLeastTimes:
    """A figure of which more is better, as a multiple of a peer's."""

    what: str
    figure: str
    peer: str
    factor: float

    def __str__(self) -> str:
        return f"{self.what} at least {self.factor:g}× {self.peer}"

    def reached(self, results: Results) -> float | None:
        ours, theirs = results.medians("ours").get(self.figure), results.medians(self.peer).get(self.figure)
        return ours / theirs if ours is not None and theirs else None

    def met(self, reached: float) -> bool:
        return reached >= self.factor

    def describe(self, reached: float) -> str:
        return f"{reached:.2f}×"


@dataclass(frozen=True)
class Beside(AtLeastTimes):
    """The multiple of another layout of the same peer, for comparison: the target is about four slots."""

    factor: float = 0.0

    def __str__(self) -> str:
        return f"{self.what} beside {self.peer}"


@dataclass(frozen=True)
class Below:
    """A figure of ours that must stay under a limit."""

    what: str
    figure: str
    limit: float
    unit: str

    def __str__(self) -> str:
        return f"{self.what} under {self.limit:g} {self.unit}"

    def reached(self, results: Results) -> float | None:
        return results.medians("ours").get(self.figure)

    def met(self, reached: float) -> bool:
        return reached < self.limit

    def describe(self, reached: float) -> str:
        return f"{reached:.3g} {self.unit}"


Target = AtLeastTimes | Below

_FACTORS = {"public": 6.0, "celery": 3.0, "dramatiq": 3.0, "taskiq": 1.0}

TARGETS: tuple[Target, ...] = (
    *(
        AtLeastTimes(f"no-op runs/s ({load})", f"noop_runs_per_s{suffix}", peer, factor)
        for load, suffix in ((f"{FEW_RUNS:,}", ""), (f"{SUSTAINED_SEC:g} s", "_sustained"))
        for peer, factor in _FACTORS.items()
    ),
    *(
        AtLeastTimes("no-op runs/s against bare functions", "functions_per_s", peer, factor)
        for peer, factor in _FACTORS.items()
        if peer != "public"
    ),
    *(
        Beside(what, figure, "dramatiq-default")
        for what, figure in (
            (f"no-op runs/s ({FEW_RUNS:,})", "noop_runs_per_s"),
            (f"no-op runs/s ({SUSTAINED_SEC:g} s)", "noop_runs_per_s_sustained"),
            ("no-op runs/s against bare functions", "functions_per_s"),
        )
    ),
    AtLeastTimes(f"submits/s ({FEW_RUNS:,})", "submits_per_s", "public", 4.0),
    AtLeastTimes(f"submits/s ({SUSTAINED_SEC:g} s)", "submits_per_s_sustained", "public", 4.0),
    Below("submit to start p50", "submit_to_start_p50_ms", 3, "ms"),
    Below("submit to start p99", "submit_to_start_p99_ms", 5, "ms"),
    Below("40 tasks of 10 ms", "chain_s", 0.48, "s"),
    Below(f"gateway and workers after {SUSTAINED_SEC:g} s of load", "total_mb_sustained", 150, "MB"),
    Below("worker memory", "worker_mb", 60, "MB"),
    Below(f"memory of each of the {SLOTS} executors", "worker_child_mb", 40, "MB"),
    Below("cancel to CANCELLED p99", "cancel_p99_ms", 200, "ms"),
)


@dataclass(frozen=True)
class Verdict:
    target: str
    reached: str
    spread: str
    verdict: str


def verdicts(results: Results) -> list[Verdict]:
    """Of the medians, with the worst and the best round."""
    return [_verdict(target, results) for target in TARGETS]


def _verdict(target: Target, results: Results) -> Verdict:
    reached = target.reached(results)
    if reached is None:
        return Verdict(str(target), "", "", "not measured")
    of_rounds = [target.reached(each) for each in results.each_round()]
    rounds = sorted(value for value in of_rounds if value is not None)
    spread = f"{target.describe(rounds[0])} to {target.describe(rounds[-1])}" if len(rounds) > 1 else ""
    if isinstance(target, Beside):
        word = "no target"
    elif not target.met(reached):
        word = "NOT met"
    else:
        word = "met" if all(map(target.met, rounds)) else "met, not in every round"
    return Verdict(str(target), target.describe(reached), spread, word)
