"""`make simulate`: plays scenarios with one seed after the other, and prints what fails.

make simulate ARGS="--seconds 60"                          all scenarios, in turn
make simulate ARGS="--seed 17 --scenario submit --story"   one schedule, and what happened in it
make simulate ARGS="--digest 10"                           a hash of stories, to compare two machines
"""

import argparse
import gc
import logging
import os
import platform
import sys
import time
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Final

from tests.simulation.child_process import in_child
from tests.simulation.failures.shrink import shrink
from tests.simulation.schedule import SCENARIOS, Result, Scenario, run_schedule

# The clock of this machine, also while a world has replaced `time`.
_clock = time.monotonic
# Schedules per child process: each leaves about a megabyte behind.
_BATCH: Final = 200


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    # Gateways and workers log their outages: the story has them.
    logging.disable(logging.CRITICAL)
    chosen = [SCENARIOS[name] for name in options.scenario or sorted(SCENARIOS)]
    gc.collect()
    gc.freeze()
    gc.disable()
    if options.story:
        return _print_stories(chosen, options.seed)
    if options.digest:
        return _print_digests(chosen, range(options.seed, options.seed + options.digest))
    return _explore(chosen, options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to play (default: 60)")
    parser.add_argument("--schedules", type=int, help="how many schedules to play, instead of --seconds")
    parser.add_argument("--seed", type=int, default=1, help="the first seed (default: 1)")
    names = ", ".join(sorted(SCENARIOS))
    parser.add_argument(
        "--scenario", action="append", choices=sorted(SCENARIOS), metavar="NAME", help=f"one of {names}"
    )
    parser.add_argument("--story", action="store_true", help="play one seed, and print what happened")
    parser.add_argument(
        "--digest", type=int, metavar="SEEDS", help="print a hash of the stories of so many seeds"
    )
    parser.add_argument("--no-shrink", action="store_true", help="do not look for a shorter schedule")
    parser.add_argument("--keep-going", action="store_true", help="continue after a failure, without stories")
    return parser


def _print_stories(scenarios: list[Scenario], seed: int) -> int:
    failed = False
    for scenario in scenarios:
        result = run_schedule(scenario, seed)
        failed = failed or result.failure is not None
        _print(result.story)
        _print(f"\n{scenario.name}, seed {seed}: {result.failure or 'every invariant holds'}")
    return int(failed)


def _print_digests(scenarios: list[Scenario], seeds: range) -> int:
    """One line per scenario, so that the one that differs is known, and one for all of them."""
    digests = [in_child(partial(_digest, scenario, seeds), str) for scenario in scenarios]
    for scenario, digest in zip(scenarios, digests, strict=True):
        _print(f"{digest}  {scenario.name}")
    of_all = sha256("".join(digests).encode()).hexdigest()
    _print(f"{of_all}  seeds {seeds[0]} to {seeds[-1]}, Python {platform.python_version()}")
    return 0


def _digest(scenario: Scenario, seeds: range) -> str:
    """Of the stories, and of all decisions: delays of messages are not in a story."""
    found = sha256()
    for seed in seeds:
        result = run_schedule(scenario, seed)
        found.update(repr((result.story, result.failure, sorted(result.decisions.items()))).encode())
    return found.hexdigest()


def _explore(scenarios: list[Scenario], options: argparse.Namespace) -> int:
    began, began_cpu = _clock(), _cpu_sec()
    plan = _Plan(scenarios, options.seed)
    played, failed = 0, 0
    while not _is_over(options, played, began):
        batch = in_child(partial(_play_batch, plan, played, options, began), _Batch)
        for number in batch.failed:
            failed += 1
            scenario, seed = plan.schedule(number)
            result = run_schedule(scenario, seed)
            _print(f"{scenario.name}, seed {seed}: {result.failure}")
            if not options.keep_going:
                _print_failure(scenario, result, is_shrunk=not options.no_shrink)
        played += batch.played
        if failed and not options.keep_going:
            break
    took, cpu = _clock() - began, _cpu_sec() - began_cpu
    _print(
        f"{played} schedules of {min(played, len(scenarios))} scenarios in {took:.1f} s "
        f"({60 * played / cpu:.0f} a minute of one core), {failed} failed"
    )
    return int(bool(failed))


@dataclass(frozen=True, slots=True)
class _Plan:
    """The same seed for each scenario, then the next."""

    scenarios: list[Scenario]
    first: int

    def schedule(self, number: int) -> tuple[Scenario, int]:
        round_, place = divmod(number, len(self.scenarios))
        return self.scenarios[place], self.first + round_


@dataclass(slots=True)
class _Batch:
    """What a child has played."""

    played: int = 0
    # The numbers of the schedules that failed.
    failed: list[int] = field(default_factory=list)


def _play_batch(plan: _Plan, first: int, options: argparse.Namespace, began: float) -> _Batch:
    batch = _Batch()
    while batch.played < _BATCH and not _is_over(options, first + batch.played, began):
        number = first + batch.played
        batch.played += 1
        if run_schedule(*plan.schedule(number)).failure is not None:
            batch.failed.append(number)
            if not options.keep_going:
                break
    return batch


def _is_over(options: argparse.Namespace, played: int, began: float) -> bool:
    if options.schedules is not None:
        return bool(played >= options.schedules)
    return played > 0 and _clock() - began >= options.seconds


def _cpu_sec() -> float:
    """Of this process and of the children that have ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def _print_failure(scenario: Scenario, result: Result, *, is_shrunk: bool) -> None:
    _print(
        f'\nReplay it with: make simulate ARGS="--seed {result.seed} --scenario {scenario.name} --story"\n'
    )
    if not is_shrunk:
        _print(result.story)
        return
    shrunk = shrink(scenario, result)
    _print(
        f"The shortest schedule that breaks the same invariant: {shrunk.after} of {shrunk.before} decisions, "
        f"after {shrunk.tried} tries.\n"
    )
    _print(shrunk.result.story)
    _print(f"\n{shrunk.result.failure}")


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
