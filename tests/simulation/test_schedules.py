"""CI plays some schedules of each scenario; and the same seed gives the same story."""

import os
import subprocess
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import pytest

from tests.simulation.child_process import ChildFailed, in_child
from tests.simulation.failures.shrink import shrink
from tests.simulation.found_seeds import FOUND
from tests.simulation.invariants import recording
from tests.simulation.invariants.recording import Recorder
from tests.simulation.schedule import SCENARIOS, run_schedule
from tests.support.places import ROOT

pytestmark = pytest.mark.usefixtures("quiet")

# Of 21 scenarios: about 50 s of a processor.
_SEEDS = range(1, 41)
# How many schedules are tried to make one that fails shorter.
_MOST_TRIES = 100


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_invariants_hold_in_every_schedule(name: str) -> None:
    failure = in_child(partial(_first_failure, name, (*_SEEDS, *FOUND.get(name, ()))), str)
    if failure:
        pytest.fail(failure)


def _first_failure(name: str, seeds: Iterable[int]) -> str:
    """Empty if all invariants hold in all of these schedules."""
    scenario = SCENARIOS[name]
    for seed in seeds:
        result = run_schedule(scenario, seed)
        if result.failure is not None:
            shortest = shrink(scenario, result, most=_MOST_TRIES).result
            return f"{name}, seed {seed}: {result.failure}\n\n{shortest.story}\n\n{shortest.failure}"
    return ""


def test_failing_schedule_of_the_child_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if it has become so short that some kind of decision is not made any more."""
    monkeypatch.setattr(sys.modules[__name__], "_MOST_TRIES", 8)
    monkeypatch.setattr(recording, "check_run_write", lambda *_, **__: iter(["this write is wrong"]))
    with pytest.raises(pytest.fail.Exception, match="submit, seed 1: this write is wrong"):
        test_invariants_hold_in_every_schedule("submit")


def test_write_that_breaks_an_invariant_fails_the_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "check_run_write", lambda *_, **__: iter(["this write is wrong"]))
    assert run_schedule(SCENARIOS["submit"], 3).failure == "this write is wrong"


def test_callback_that_fails_fails_the_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise ValueError("a defect")

    monkeypatch.setattr(Recorder, "_on_journal", lambda self, stored: fail(stored))
    failure = run_schedule(SCENARIOS["submit"], 3).failure
    assert failure == "a callback has failed: ValueError('a defect')"


def test_advisory_is_stored_although_gateways_subscribe_to_it() -> None:
    """Some job of the sweep has used up its only delivery."""
    assert any("PYOCO_ADVISORIES" in run_schedule(SCENARIOS["sweep"], seed).story for seed in range(1, 9))


def test_child_process_returns_its_result_and_reports_its_failure(capfd: pytest.CaptureFixture[str]) -> None:
    assert in_child(lambda: [os.getpid()], list[int]) != [os.getpid()]
    with pytest.raises(ChildFailed, match="exit code 1"):
        in_child(lambda: 1 // 0, int)
    assert "ZeroDivisionError" in capfd.readouterr().err


@pytest.mark.parametrize("name", ["submit", "answer"])
def test_given_decisions_replay_a_story(name: str) -> None:
    drawn = run_schedule(SCENARIOS[name], 3)
    assert run_schedule(SCENARIOS[name], 3, given=drawn.decisions).story == drawn.story


def test_same_seed_gives_the_same_story_on_every_machine(tmp_path: Path) -> None:
    """Other hashes, folders, languages and time zones, and a busy processor, change nothing."""
    other = {"TMPDIR": str(tmp_path), "HOME": str(tmp_path), "LANG": "ja_JP.UTF-8", "TZ": "Asia/Tokyo"}
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            programs = [
                _start_program(ROOT, PYTHONHASHSEED="1", TZ="UTC"),
                _start_program(tmp_path, PYTHONHASHSEED="2", **other),
            ]
            digests = [program.communicate()[0] for program in programs]
        finally:
            busy.kill()
    assert [program.returncode for program in programs] == [0, 0]
    assert len({line.split()[0] for line in digests[0].splitlines()}) == len(SCENARIOS) + 1
    assert digests[0] == digests[1]


def _start_program(folder: Path, **variables: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "tests.simulation", "--seed", "7", "--digest", "1"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | variables,
        stdout=subprocess.PIPE,
        text=True,
    )
