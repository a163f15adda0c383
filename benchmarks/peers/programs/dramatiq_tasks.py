"""Dramatiq on Redis: messages in one database, results in another."""

import os

import dramatiq
import pyoco_work
import work
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

REDIS_URL = os.environ["BENCH_REDIS_URL"]

broker = RedisBroker(url=f"{REDIS_URL}/0")
broker.add_middleware(Results(backend=RedisBackend(url=f"{REDIS_URL}/1"), store_results=True))
dramatiq.set_broker(broker)


@dramatiq.actor
def nothing(number: int) -> None: ...


@dramatiq.actor
def noop_flow(number: int) -> None:
    pyoco_work.run_noop(number)


@dramatiq.actor
def stamp(sent_at: float, stamps: str) -> None:
    work.note_start(sent_at, stamps)


@dramatiq.actor
def rest(seconds: float) -> None:
    work.rest(seconds)
