"""Celery on Redis: jobs in one database, results in another."""

import os

import pyoco_work
import work
from celery import Celery

REDIS_URL = os.environ["BENCH_REDIS_URL"]

app = Celery("celery_tasks", broker=f"{REDIS_URL}/0", backend=f"{REDIS_URL}/1")


@app.task
def nothing(number: int) -> None: ...


@app.task
def noop_flow(number: int) -> None:
    pyoco_work.run_noop(number)


@app.task
def stamp(sent_at: float, stamps: str) -> None:
    work.note_start(sent_at, stamps)


@app.task
def rest(seconds: float) -> None:
    work.rest(seconds)
