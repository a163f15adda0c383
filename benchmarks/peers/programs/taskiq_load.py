"""The load on Taskiq."""

import asyncio
import time

import driving
import taskiq_tasks
import uvloop
from taskiq_pipelines import Pipeline

_POLL_SEC = 0.002


class OnTaskiq:
    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner
        runner.run(taskiq_tasks.broker.startup())

    async def function(self) -> None:
        await taskiq_tasks.nothing.kiq(7)

    async def flow(self) -> None:
        await taskiq_tasks.noop_flow.kiq(7)

    async def stamp(self, sent_at: float, stamps: str) -> None:
        await taskiq_tasks.stamp.kiq(sent_at, stamps)

    def chain(self, tasks: int, task_sec: float, limit_sec: float) -> None:
        awaited = self.finished() + tasks
        self._runner.run(self._run_pipeline(tasks, task_sec))
        limit = time.perf_counter() + limit_sec
        while self.finished() < awaited:
            if time.perf_counter() > limit:
                raise TimeoutError(f"the chain was not done after {limit_sec:g} s")
            time.sleep(_POLL_SEC)

    def finished(self) -> int:
        return self._runner.run(self._acknowledged())

    async def _run_pipeline(self, tasks: int, task_sec: float) -> None:
        pipeline = Pipeline(taskiq_tasks.broker, taskiq_tasks.rest)
        for _ in range(tasks - 1):
            pipeline = pipeline.call_after(taskiq_tasks.rest, seconds=task_sec)
        await pipeline.kiq(task_sec)

    async def _acknowledged(self) -> int:
        consumer = await taskiq_tasks.broker.js.consumer_info(taskiq_tasks.STREAM, taskiq_tasks.DURABLE)
        return consumer.ack_floor.stream_seq if consumer.ack_floor else 0


with asyncio.Runner(loop_factory=uvloop.new_event_loop) as one_loop:
    driving.serve(driving.AsyncDriver(OnTaskiq(one_loop), one_loop))
