"""DBOS on SQLite or PostgreSQL: workflows on a queue; run as a program, this is the worker."""

import os
import signal

import pyoco_work
import work
from dbos import DBOS, DBOSConfig

DATABASE_URL = os.environ["BENCH_DATABASE_URL"]
QUEUE = "bench"
_POLLING_SEC = 0.01  # the default of 1 s would be most of what is measured


@DBOS.workflow(name="nothing")
def nothing(number: int) -> None: ...


@DBOS.workflow(name="noop_flow")
def noop_flow(number: int) -> None:
    pyoco_work.run_noop(number)


@DBOS.workflow(name="stamp")
def stamp(sent_at: float, stamps: str) -> None:
    work.note_start(sent_at, stamps)


@DBOS.step(name="rest")
def rest(seconds: float) -> None:
    work.rest(seconds)


@DBOS.workflow(name="chain")
def chain(tasks: int, task_sec: float) -> None:
    for _ in range(tasks):
        rest(task_sec)


def main() -> None:
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": DATABASE_URL,
        "application_version": "1",
        "log_level": "WARNING",
        "max_executor_threads": int(os.environ["BENCH_SLOTS"]),
    }
    DBOS(config=config)
    DBOS.launch()
    DBOS.register_queue(QUEUE, polling_interval_sec=_POLLING_SEC)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    DBOS.destroy()


if __name__ == "__main__":
    main()
