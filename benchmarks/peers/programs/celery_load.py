"""The load on Celery."""

import celery_tasks
import driving
import redis
from celery import chain


class OnCelery:
    def __init__(self) -> None:
        self._results = redis.Redis.from_url(f"{celery_tasks.REDIS_URL}/1")

    def function(self) -> None:
        celery_tasks.nothing.delay(7)

    def flow(self) -> None:
        celery_tasks.noop_flow.delay(7)

    def stamp(self, sent_at: float, stamps: str) -> None:
        celery_tasks.stamp.delay(sent_at, stamps)

    def chain(self, tasks: int, task_sec: float, limit_sec: float) -> None:
        chain(celery_tasks.rest.si(task_sec) for _ in range(tasks)).apply_async().get(timeout=limit_sec)

    def finished(self) -> int:
        return int(self._results.dbsize())  # one key for each stored result


driving.serve(driving.Driver(OnCelery()))
