"""Flows for workers under test: each shows one behaviour."""

import ctypes
import math
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from pyoco import Flow, task
from pyoco.core.models import Task
from pyoco.dsl.syntax import TaskWrapper


@task
def nothing() -> None: ...


@task
def never() -> None: ...


@task
def first() -> None: ...


@task
def second() -> None: ...


@task
def shared() -> None: ...


@task
def load(x: int = 1) -> int:
    print(f"loading {x}")
    return x + 1


@task
def store(load: int) -> dict[str, int]:
    print("a warning", file=sys.stderr)
    return {"stored": load}


@task
def fail(message: str = "it broke") -> None:
    raise ValueError(message)


@task
def leave() -> None:
    sys.exit(3)


@task
def crash() -> None:
    ctypes.string_at(0)


@task
def vanish(code: int = 7) -> None:
    os._exit(code)


@task
def wait_for_file(ctx: Any, path: str, started: str | None = None) -> str:
    """Runs until the file exists: the test decides when this task ends."""
    if started:
        Path(started).write_text(str(os.getpid()))
    while not Path(path).exists():
        if ctx.is_cancelled:
            raise RuntimeError("stopped because of a cancel")
        time.sleep(0.01)
    return "waited"


@task
def count_and_sleep(counter: str, seconds: float) -> None:
    with Path(counter).open("a") as file:
        file.write("executed\n")
    time.sleep(seconds)


@task
def large(size: int) -> str:
    return "x" * size


@task
def deaf(seconds: float) -> None:
    """Holds the GIL: no other thread of this process runs meanwhile."""
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))


@task
def odd() -> dict[str, object]:
    return {"set": {1}, "bytes": b"\xff", "object": object(), "surrogate": "\ud800", "huge": 10**40}


@task
def leave_a_child(pid_file: str, then: str) -> None:
    """Start a process that outlives the task and keeps its stdout open."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(pid_file).write_text(str(child.pid))
    if then == "crash":
        os._exit(9)


@task
def fork_and_wait(started: str) -> None:
    """Forks a child that lives on, holding all that this process had open."""
    if os.fork() == 0:
        time.sleep(600)
        os._exit(0)
    Path(started).write_text(str(os.getpid()))
    time.sleep(600)


@task
def speak(text: str = "hello") -> None:
    print(text)


@task
def close_stdout() -> int:
    sys.stdout.close()
    return os.getpid()


@task
def leave_a_thread(daemon: bool = True) -> int:
    threading.Thread(target=time.sleep, args=(600,), daemon=daemon).start()
    return os.getpid()


@task
def pid() -> int:
    return os.getpid()


@task
def fail_strangely() -> None:
    raise ValueError("a file named \udcff")


class Unspeakable:
    def __repr__(self) -> str:
        raise SystemExit("no words")


@task
def unspeakable() -> object:
    return Unspeakable()


@task
def where() -> dict[str, str]:
    Path("note.txt").write_text("kept")
    return {"cwd": os.getcwd(), "pid": str(os.getpid())}


@task
def shell() -> None:
    subprocess.run([sys.executable, "-c", "print('from a child process')"], check=True)


@task
def return_bytes(text: str = "") -> bytes:
    return text.encode("latin-1")


def task_object(function: Any, name: str) -> TaskWrapper:
    return TaskWrapper(Task(func=function, name=name))


def _flow(name: str, *steps: Any) -> Flow:
    flow = Flow(name=name)
    for step in steps:
        flow = flow >> step
    return flow


noop_flow = _flow("noop", nothing)
chain_flow = _flow("chain", load, store)
failing_flow = _flow("failing", fail, never)
# One task in two flows: pyoco links `shared` to both of its predecessors.
entangled_flow = _flow("entangled", first, shared)
other_entangled_flow = _flow("other-entangled", second, shared)
leaving_flow = _flow("leaving", leave)
crashing_flow = _flow("crashing", crash)
vanishing_flow = _flow("vanishing", vanish)
waiting_flow = _flow("waiting", wait_for_file)
counting_flow = _flow("counting", count_and_sleep)
large_flow = _flow("large", large)
odd_flow = _flow("odd", odd)
where_flow = _flow("where", where)
deaf_flow = _flow("deaf", deaf)
wide_flow = _flow(
    "wide",
    *(
        task_object(lambda number=number, width=2000: str(number) * width, f"part_{number}")
        for number in range(40)
    ),
)
forking_flow = _flow("forking", fork_and_wait)
speaking_flow = _flow("speaking", speak)
closing_flow = _flow("closing", close_stdout)
threading_flow = _flow("threading", leave_a_thread)
pid_flow = _flow("pid", pid)
measuring_flow = _flow("measuring", task_object(lambda: {"mean": math.nan}, "measure"))
strange_flow = _flow("strange", fail_strangely)
unspeakable_flow = _flow("unspeakable", unspeakable)
parent_flow = _flow("parent", leave_a_child)
shell_flow = _flow("shell", shell)
returning_bytes_flow = _flow("returning_bytes", return_bytes)
