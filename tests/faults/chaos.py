"""The long form of the fault suite: many runs, faults of every kind in a random order, and the figures.

python -m tests.faults.chaos --runs 20000 --seed 7
"""

import argparse
import logging
import secrets
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

import uvloop

from tests.faults.scenario import Outcome, Scenario, play
from tests.faults.stack import ACK_WAIT_SEC, Size
from tests.faults.villain import Crime
from tests.faults.work import Mix

_RUNS = 20_000
_RUNS_PER_FAULT = 400
_MIX = Mix(
    {"noop": 50, "chain": 20, "loop": 8, "steps": 8, "branches": 6, "patient": 6, "stubborn": 0.2},
    nap_sec=0.04,
)
_ONE_SERVER = {
    Crime.KILL_WORKER: 4,
    Crime.KILL_EXECUTOR: 3,
    Crime.PAUSE_WORKER: 3,
    Crime.KILL_GATEWAY: 4,
    Crime.KILL_NATS: 3,
    Crime.KILL_SUCCESSOR: 2,
    Crime.KILL_CANCELLER: 2,
}
_CLUSTER = {Crime.KILL_LEADER if crime is Crime.KILL_NATS else crime: n for crime, n in _ONE_SERVER.items()}


def scenario(*, runs: int, seed: str, cluster: bool) -> Scenario:
    rng = Random(f"{seed}/crimes")
    crimes = _CLUSTER if cluster else _ONE_SERVER
    return Scenario(
        crimes=rng.choices(list(crimes), list(crimes.values()), k=max(1, runs // _RUNS_PER_FAULT)),
        mix=_MIX,
        runs=runs,
        size=Size(nats=3 if cluster else 1, gateways=2, workers=3, slots=3),
        most_open=100,
    )


def report(outcome: Outcome) -> str:
    verdict = outcome.verdict
    crimes = Counter(fault.crime.value for fault in outcome.faults)
    rows = {
        "runs": f"{verdict.accepted} accepted in {outcome.seconds:.0f} s",
        "requests made again": outcome.retries,
        "ended": _counted(verdict.ends),
        "faults": f"{len(outcome.faults)}: {_counted(crimes)}",
        "lost": len(verdict.lost),
        "two terminal states": len(verdict.two_ends),
        "stuck": len(verdict.stuck),
        "duplicates": f"{len(verdict.duplicates)} ({verdict.in_flight} tasks in flight at a fault ran again)",
        "wrong ends": len(verdict.wrong_ends),
        "leaks": len(verdict.leaks),
        "odd answers": len(verdict.odd_answers),
        "taken over": f"{len(verdict.recoveries)} runs, and {len(verdict.causeless)} without a fault",
        "recovery": _recovery([seconds for seconds, _ in verdict.recoveries]),
        "seed": outcome.seed,
    }
    return "".join(f"{name:<20} {value}\n" for name, value in rows.items())


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())


def _recovery(seconds: list[float]) -> str:
    """From a fault until the next attempt has begun; AckWait is the least that a silent death takes."""
    if not seconds:
        return "no run was taken over"
    ordered = sorted(seconds)
    p50, p99 = (ordered[min(len(ordered) - 1, int(len(ordered) * part))] for part in (0.5, 0.99))
    return f"p50 {p50:.2f} s, p99 {p99:.2f} s, at most {ordered[-1]:.2f} s (AckWait {ACK_WAIT_SEC:g} s)"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.chaos", description=__doc__)
    parser.add_argument("--runs", type=int, default=_RUNS, help=f"how many at least ({_RUNS})")
    parser.add_argument(
        "--seed", default=str(secrets.randbelow(10**6)), help="of an earlier chaos, to replay it"
    )
    parser.add_argument("--cluster", action="store_true", help="three NATS servers, and their leaders killed")
    options = parser.parse_args()
    # The outages that are told of are our own work.
    logging.getLogger("pyoco_server").setLevel(logging.CRITICAL)
    began = time.monotonic()

    def say(text: str) -> None:
        sys.stdout.write(f"{time.monotonic() - began:7.1f} s  {text}\n")
        sys.stdout.flush()

    say(f"seed {options.seed}")
    folder = Path(tempfile.mkdtemp(prefix="pyoco-chaos-"))
    wanted = scenario(runs=options.runs, seed=options.seed, cluster=options.cluster)
    outcome = uvloop.run(play(wanted, seed=options.seed, folder=folder, say=say))
    sys.stdout.write(report(outcome))
    if outcome.verdict.broken:
        sys.stdout.write(f"\n{outcome}\nThe logs of all processes and the data of NATS are in {folder}\n")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
