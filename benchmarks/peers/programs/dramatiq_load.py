"""The load on Dramatiq."""

import dramatiq
import dramatiq_tasks
import driving
import redis


class OnDramatiq:
    def __init__(self) -> None:
        self._results = redis.Redis.from_url(f"{dramatiq_tasks.REDIS_URL}/1")

    def function(self) -> None:
        dramatiq_tasks.nothing.send(7)

    def flow(self) -> None:
        dramatiq_tasks.noop_flow.send(7)

    def stamp(self, sent_at: float, stamps: str) -> None:
        dramatiq_tasks.stamp.send(sent_at, stamps)

    def chain(self, tasks: int, task_sec: float, limit_sec: float) -> None:
        one = [
            dramatiq_tasks.rest.message_with_options(args=(task_sec,), pipe_ignore=True) for _ in range(tasks)
        ]
        dramatiq.pipeline(one).run().get_result(block=True, timeout=int(limit_sec * 1000))

    def finished(self) -> int:
        return int(self._results.dbsize())  # one key for each stored result


driving.serve(driving.Driver(OnDramatiq()))
