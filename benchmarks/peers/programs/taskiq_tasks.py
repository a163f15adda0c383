"""Taskiq on NATS: the JetStream pull broker. No result is kept: a task that was acknowledged has ended."""

import os

import pyoco_work
import work
from taskiq_nats import PullBasedJetStreamBroker
from taskiq_pipelines import PipelineMiddleware

STREAM = "taskiq_jetstream"
DURABLE = "taskiq_durable"

broker = PullBasedJetStreamBroker(
    servers=os.environ["BENCH_NATS_URL"],
    stream_name=STREAM,
    durable=DURABLE,
).with_middlewares(PipelineMiddleware())


@broker.task
async def nothing(number: int) -> None: ...


@broker.task
async def noop_flow(number: int) -> None:
    pyoco_work.run_noop(number)


@broker.task
async def stamp(sent_at: float, stamps: str) -> None:
    work.note_start(sent_at, stamps)


@broker.task
def rest(seconds: float) -> None:
    work.rest(seconds)
