"""`make simulate`: plays scenarios with one seed after the other, and prints what fails.

make simulate ARGS="--seconds 60"                          all scenarios, in turn
make simulate ARGS="--seed 17 --scenario submit --story"   one schedule, and what happened in it
"""

import argparse
import gc
import itertools
import logging
import sys
import time
from collections import Counter
from collections.abc import Iterator

from tests.simulation.failures.shrink import shrink
from tests.simulation.schedule import SCENARIOS, Result, Scenario, run_schedule

# The clock of this machine, also while a world has replaced `time`.
_clock = time.monotonic
_cpu = time.process_time
_COLLECT_EVERY = 50


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


def _explore(scenarios: list[Scenario], options: argparse.Namespace) -> int:
    began, began_cpu = _clock(), _cpu()
    played: Counter[str] = Counter()
    failed: list[Result] = []
    for count, (seed, scenario) in enumerate(_schedules(scenarios, options.seed), start=1):
        result = run_schedule(scenario, seed)
        played[scenario.name] += 1
        if result.failure is not None:
            failed.append(result)
            _print(f"{scenario.name}, seed {seed}: {result.failure}")
            if not options.keep_going:
                _print_failure(scenario, result, is_shrunk=not options.no_shrink)
                break
        if count % _COLLECT_EVERY == 0:
            gc.collect()
        is_over = _clock() - began >= options.seconds
        if count == options.schedules or (options.schedules is None and is_over):
            break
    took, cpu = _clock() - began, _cpu() - began_cpu
    total = played.total()
    _print(
        f"{total} schedules of {len(played)} scenarios in {took:.1f} s ({60 * total / cpu:.0f} a minute of "
        f"one core), {len(failed)} failed"
    )
    return int(bool(failed))


def _schedules(scenarios: list[Scenario], first: int) -> Iterator[tuple[int, Scenario]]:
    """The same seed for each scenario, then the next."""
    return ((seed, scenario) for seed in itertools.count(first) for scenario in scenarios)


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
