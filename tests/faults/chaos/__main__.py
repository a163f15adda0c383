"""Many runs with random faults of every kind, and a report.

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

from tests.faults.chaos import takeover
from tests.faults.chaos.fault_injector import FaultKind
from tests.faults.chaos.scenario import Scenario, ScenarioResult, run_scenario
from tests.faults.chaos.stack import ACK_WAIT_SEC, Size
from tests.faults.chaos.workload import Mix

_RUNS = 20_000
_RUNS_PER_FAULT = 400
_MIX = Mix(
    {
        **{"noop": 50, "chain": 20, "loop": 8, "steps": 8, "branches": 6},
        **{"cancellable": 6, "uncancellable": 0.2, "sleeper": 0.5},
    },
    task_sec=0.04,
)
_ONE_SERVER = {
    FaultKind.KILL_WORKER: 4,
    FaultKind.KILL_EXECUTOR: 3,
    FaultKind.PAUSE_WORKER: 3,
    FaultKind.KILL_GATEWAY: 4,
    FaultKind.KILL_NATS: 3,
    FaultKind.KILL_SUCCESSOR: 2,
    FaultKind.KILL_CANCELLER: 2,
    FaultKind.WRITE_UNREADABLE: 1,
}
_CLUSTER = {
    FaultKind.KILL_LEADER if kind is FaultKind.KILL_NATS else kind: n for kind, n in _ONE_SERVER.items()
}


def scenario(*, runs: int, seed: str, cluster: bool) -> Scenario:
    rng = Random(f"{seed}/kinds")
    kinds = _CLUSTER if cluster else _ONE_SERVER
    drawn = rng.choices(list(kinds), list(kinds.values()), k=max(1, runs // _RUNS_PER_FAULT))
    if not cluster:
        drawn.insert(len(drawn) // 2, FaultKind.FILL_DISK)
    return Scenario(
        kinds=drawn,
        mix=_MIX,
        runs=runs,
        size=Size(nats=3 if cluster else 1, gateways=2, workers=3, slots=3),
        most_open=100,
        schedules=4,
    )


def format_report(outcome: ScenarioResult) -> str:
    report = outcome.report
    kinds = Counter(fault.kind.value for fault in outcome.faults)
    rows = {
        "runs": f"{report.accepted} accepted in {outcome.seconds:.0f} s",
        "retried requests": outcome.retries,
        "ended": _counted(report.ends),
        "faults": f"{len(outcome.faults)}: {_counted(kinds)}",
        "lost": len(report.lost),
        "two terminal states": len(report.second_ends),
        "stuck": len(report.stuck),
        "duplicates": f"{len(report.duplicates)} ({report.in_flight} tasks in flight at a fault ran again)",
        "wrong ends": len(report.wrong_ends),
        "schedules": f"{_counted(report.occurrences)}; wrong {len(report.wrong_occurrences)}",
        "leaks": len(report.leaks),
        "unexpected responses": len(report.unexpected_responses),
        "taken over": f"{len(report.recoveries)} runs, {len(report.unexplained_takeovers)} without a fault",
        "recovery": _recovery([seconds for seconds, _ in report.recoveries]),
        "seed": outcome.seed,
    }
    return "".join(f"{name:<21} {value}\n" for name, value in rows.items())


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
        "--seed", default=str(secrets.randbelow(10**6)), help="of an earlier run, to repeat it"
    )
    parser.add_argument("--cluster", action="store_true", help="three NATS servers, and their leaders killed")
    options = parser.parse_args()
    # Outages are expected here: do not log them.
    logging.getLogger("pyoco_server").setLevel(logging.CRITICAL)
    began = time.monotonic()

    def report_progress(text: str) -> None:
        sys.stdout.write(f"{time.monotonic() - began:7.1f} s  {text}\n")
        sys.stdout.flush()

    report_progress(f"seed {options.seed}")
    folder = Path(tempfile.mkdtemp(prefix="pyoco-chaos-"))
    (folder / "takeover").mkdir()
    planned = scenario(runs=options.runs, seed=options.seed, cluster=options.cluster)
    outcome = uvloop.run(
        run_scenario(planned, seed=options.seed, folder=folder, report_progress=report_progress)
    )
    sys.stdout.write(format_report(outcome))
    planned = takeover.scenario(runs=options.runs, cluster=options.cluster)
    killed = uvloop.run(
        run_scenario(planned, seed=options.seed, folder=folder / "takeover", report_progress=report_progress)
    )
    sys.stdout.write(takeover.format_report(killed))
    problems = [str(each) for each in (outcome, killed) if each.report.broken] + takeover.slow(killed)
    if problems:
        found = "\n".join(problems)
        sys.stdout.write(f"\n{found}\nThe logs of all processes and the data of NATS are in {folder}\n")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
