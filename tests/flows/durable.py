"""Flows that can be interrupted: each task records its execution, and some wait for a file."""

import ctypes
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from pyoco import Flow
from pyoco.core.models import Task
from pyoco.dsl.syntax import TaskWrapper


def note(book: str, name: str) -> None:
    # One write per line: concurrent writers do not mix.
    with Path(book).open("ab", buffering=0) as file:
        file.write(f"{name}\n".encode())


def noting(name: str, *, holds: bool = False, **options: Any) -> TaskWrapper:
    def run(ctx: Any, book: str, release: str | None = None) -> str:
        place = f"{name}@{ctx.loop.path}" if ctx.loop else name
        note(book, place)
        while holds and release is not None and not Path(release).exists():
            time.sleep(0.01)
        ctx.scratch[name] = ctx.scratch.get(name, 0) + 1
        return place

    return TaskWrapper(Task(func=run, name=name, **options))


def plain(name: str, function: Any, **options: Any) -> TaskWrapper:
    return TaskWrapper(Task(func=function, name=name, **options))


def hold(one: str) -> None:
    """Deaf to a cancel: only the file ends it."""
    while not Path(one).exists():
        time.sleep(0.01)


def hold_again(other: str) -> None:
    hold(other)


holding_twice = Flow("holding-twice") >> plain("hold", hold) >> plain("hold_again", hold_again)

interrupted_chain = Flow("interrupted-chain") >> noting("one") >> noting("two", holds=True) >> noting("three")

interrupted_loop = (
    Flow("interrupted-loop")
    >> noting("begin")
    >> noting("turn")[3]
    >> noting("middle", holds=True)
    >> noting("turn_again")["$ctx.params.items as item"]
)

interrupted_branches = Flow("interrupted-branches")
_start, _left, _right, _end = (
    noting("start").task,
    noting("left", holds=True).task,
    noting("right").task,
    noting("end").task,
)
for _before, _after in ((_start, _left), (_start, _right), (_left, _end), (_right, _end)):
    _before.dependents.add(_after)
    _after.dependencies.add(_before)
for _each in (_start, _left, _right, _end):
    interrupted_branches.add_task(_each)


def charge_twice(ctx: Any, book: str, release: str) -> list[str]:
    def charge() -> str:
        note(book, "charge")
        return "charged"

    first = ctx.step("charge", charge)
    while not Path(release).exists():
        time.sleep(0.01)
    return [first, ctx.step("charge", charge)]


stepping = Flow("stepping") >> plain("charge_twice", charge_twice)


def make_large(book: str, size: int) -> str:
    note(book, "make")
    return "x" * size


def measure(make: str) -> int:
    return len(make)


large_result = (
    Flow("large-result")
    >> plain("make", make_large)
    >> noting("hold", holds=True)
    >> plain("measure", measure)
)


def hang(started: str | None = None) -> None:
    if started:
        Path(started).write_text(str(os.getpid()))
    time.sleep(600)


slow_task = Flow("slow-task") >> plain("quick", lambda: "done") >> plain("slow", hang, timeout_sec=0.4)
slow_loop = Flow("slow-loop") >> plain("slow", hang, timeout_sec=0.4)[2]
hanging = Flow("hanging") >> plain("quick", lambda: "done") >> plain("hang", hang)

slow_but_isolated = Flow("slow-but-isolated")
for _each in (
    plain("slow", hang, timeout_sec=0.4, fail_policy="isolate").task,
    noting("first").task,
    noting("second").task,
):
    slow_but_isolated.add_task(_each)


def fail_until(book: str, times: int) -> int:
    note(book, "try")
    tries = len(Path(book).read_text().splitlines())
    if tries <= times:
        raise ValueError(f"try {tries}")
    return tries


retrying = Flow("retrying") >> plain("flaky", fail_until, retries=3)

failing_aside = Flow("failing-aside")
for _each in (plain("flaky", fail_until, fail_policy="isolate").task, noting("other").task):
    failing_aside.add_task(_each)


def talk(ctx: Any, release: str) -> None:
    print("first line")
    print("to stderr", file=sys.stderr)
    subprocess.run([sys.executable, "-c", "print('from a child')"], check=True)
    os.write(2, b"from the descriptor\n")
    while not Path(release).exists():
        time.sleep(0.01)
    print("without an end", end="")


def talk_too_much(lines: int, width: int) -> None:
    for number in range(lines):
        print(f"{number} " + "x" * width)


def count_at_once(lines: int) -> None:
    print("\n".join(map(str, range(lines))))
    print("all counted")


def shout_and_die() -> None:
    print("about to die")
    os.write(2, b"last words\n")
    os.kill(os.getpid(), 9)


def shout_natively(width: int, times: int) -> None:
    """As a library does that keeps the GIL: nothing else of this process moves until all is written."""
    write = ctypes.PyDLL(None).write
    line = b"x" * (width - 1) + b"\n"
    patience = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        for _ in range(times):
            write(1, line, width)
    finally:
        sys.setswitchinterval(patience)


talking = Flow("talking") >> plain("talk", talk) >> plain("after", lambda: print("second task"))
flooding = Flow("flooding") >> plain("flood", talk_too_much)
counting_at_once = Flow("counting-at-once") >> plain("count", count_at_once)
shouting = Flow("shouting") >> plain("shout", shout_natively)
dying = Flow("dying") >> plain("die", shout_and_die)


def hold_the_gil() -> None:
    re.match(r"(a+)+$", "a" * 60 + "b")


deaf_task = (
    Flow("deaf-task") >> plain("quick", lambda: "done") >> plain("deaf", hold_the_gil, timeout_sec=0.3)
)

deaf_but_isolated = Flow("deaf-but-isolated")
for _each in (
    plain("deaf", hold_the_gil, timeout_sec=0.3, fail_policy="isolate").task,
    noting("other").task,
):
    deaf_but_isolated.add_task(_each)

wide_with_limits = Flow("wide-with-limits")
# On eight threads they take longer than the limit of each, and each takes far less.
for _number in range(96):
    wide_with_limits.add_task(plain(f"part_{_number}", lambda: time.sleep(0.1), timeout_sec=1.0).task)


def wait_and_note(book: str, release: str) -> None:
    while not Path(release).exists():
        time.sleep(0.01)
    note(book, "beside")


cancelled_at_a_limit = Flow("cancelled-at-a-limit")
_stuck = plain("stuck", hang, timeout_sec=1.0, fail_policy="isolate").task
_beside = plain("beside", wait_and_note).task
_later = noting("later").task
_later.dependencies.add(_beside)
_beside.dependents.add(_later)
for _each in (_stuck, _beside, _later):
    cancelled_at_a_limit.add_task(_each)
