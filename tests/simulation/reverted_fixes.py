"""Finds reverted fixes: with each one reverted, the simulation has to break an invariant by itself.

python -m tests.simulation.reverted_fixes [--seconds 600] [--first 0] [name ...]
"""

import argparse
import gc
import itertools
import logging
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from tests.simulation.fixes import BY_NAME, FIXES, Fix
from tests.simulation.schedule import SCENARIOS, Result, run_schedule


@dataclass(frozen=True, slots=True)
class Found:
    fix: Fix
    # The first schedule that breaks an invariant; None: there was none in the time.
    result: Result | None
    schedules: int
    cpu_sec: float


def find(fix: Fix, *, seconds: float, first: int = 0) -> Found:
    """Play its scenarios with one seed after the other, until a schedule fails that holds with the fix."""
    began = time.process_time()
    for count, (scenario, seed) in enumerate(_schedules(fix, first), start=1):
        with fix.reverted():
            result = run_schedule(SCENARIOS[scenario], seed)
        is_found = result.failure is not None and run_schedule(SCENARIOS[scenario], seed).failure is None
        # Between two worlds only: it would close what crashed processes have left open.
        gc.collect(1)
        spent = time.process_time() - began
        if is_found or spent > seconds:
            return Found(fix, result if is_found else None, count, spent)
    raise AssertionError("unreachable")


def _schedules(fix: Fix, first: int) -> Iterator[tuple[str, int]]:
    for seed in itertools.count(first):
        for scenario in fix.scenarios:
            yield scenario, seed


def _row(found: Found) -> str:
    fix, result = found.fix, found.result
    cost = f"{found.schedules} | {found.cpu_sec:.1f} s"
    if result is None:
        return f"| `{fix.name}` | {fix.item} | {fix.defect} | not found | | {cost} | |"
    where = f"{result.scenario} | {result.seed}"
    return f"| `{fix.name}` | {fix.item} | {fix.defect} | {where} | {cost} | {result.failure} |"


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *BY_NAME], help="of fixes; all by default")
    parser.add_argument("--seconds", type=float, default=600.0, help="of the processor, for each fix")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    gc.collect()
    gc.freeze()
    gc.disable()
    _print("| Fix | Item | Without it | Scenario | Seed | Schedules | CPU | Broken invariant |")
    _print("|---|---|---|---|---|---|---|---|")
    for fix in [BY_NAME[name] for name in options.names] or FIXES:
        _print(_row(find(fix, seconds=options.seconds, first=options.first)))


if __name__ == "__main__":
    main()
