"""Finds what must not remain in NATS or on the machine when every run has ended."""

from collections.abc import AsyncIterator, Iterable
from typing import Any

import msgspec

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.queue.tag_consumers import consumer_name
from pyoco_server.broker.stores.runs.idempotency_keys import KeyRecord
from pyoco_server.broker.stores.triggers.hook_messages import INTAKE_CONSUMER
from tests.faults.chaos.execution_log import read_execution_log
from tests.faults.chaos.executions import Executions
from tests.faults.chaos.history import read_everything
from tests.faults.chaos.stack import Stack

# What gateways share for good: the lease of the sweep, and what signatures are made with.
_SHARED = {"sweep", "secret_jobs", "secret_cursors", "trusted_records"}

_decode_key = msgspec.json.Decoder(KeyRecord).decode


async def leaks(stack: Stack, *, known_runs: Iterable[str], journalled_runs: Iterable[str]) -> list[str]:
    """One line for each leak."""
    return [
        *await _left_in_nats(stack, known_runs=known_runs, journalled_runs=journalled_runs),
        *_left_on_the_machine(stack),
    ]


def _left_on_the_machine(stack: Stack) -> list[str]:
    executors = stack.executors()
    owned = {pid for worker in stack.workers.values() for pid in worker.executors()}
    executions = Executions(read_execution_log(stack.execution_log))
    return [
        *(f"executor process {pid} without a worker" for pid in executors if pid not in owned),
        *(f"still executed: {each.run_id} {each}" for each in executions.under_way(executors)),
    ]


async def _left_in_nats(
    stack: Stack, *, known_runs: Iterable[str], journalled_runs: Iterable[str]
) -> list[str]:
    connection, config = stack.connection, stack.connection.config
    found = [
        f"{count} messages in {stream}"
        for stream in (config.work_stream, config.advisory_stream)
        if (count := (await _info(connection, stream))["state"]["messages"])
    ]
    expected = {
        (config.work_stream, consumer_name(config.default_tag)),
        (config.event_intake_stream, INTAKE_CONSUMER),
    }
    found += [
        f"consumer {name} of {stream}"
        for stream in await _streams(connection)
        for name in await _consumers(connection, stream)
        if (stream, name) not in expected
        # Those of feeds, which the server removes a minute after their last use.
        and not name.startswith("pyoco_reader_")
    ]
    found += [f"a journal of {run_id}" for run_id in set(journalled_runs) - set(known_runs)]
    found += [
        f"worker {name}"
        async for name in _keys(connection, config.workers_kv_bucket)
        if name not in stack.workers
    ]
    found += [
        f"lease {name}" async for name in _keys(connection, config.lease_kv_bucket) if name not in _SHARED
    ]
    found += [f"key {text}" async for text in _unaccepted_keys(connection)]
    return found


async def _info(connection: Connection, stream: str) -> dict[str, Any]:
    return await jetstream_api.call(connection, f"STREAM.INFO.{stream}")


async def _streams(connection: Connection) -> list[str]:
    names: list[str] = (await jetstream_api.call(connection, "STREAM.NAMES"))["streams"]
    return names


async def _consumers(connection: Connection, stream: str) -> list[str]:
    """Without those that the server removes by itself when their reader is gone."""
    consumers = (await jetstream_api.call(connection, f"CONSUMER.LIST.{stream}"))["consumers"]
    return [each["name"] for each in consumers if not each["config"].get("inactive_threshold")]


async def _keys(connection: Connection, bucket: str) -> AsyncIterator[str]:
    async for name, _ in _entries(connection, bucket):
        yield name


async def _unaccepted_keys(connection: Connection) -> AsyncIterator[str]:
    """Clients retry until they get a response, and then the key is accepted."""
    async for name, value in _entries(connection, connection.config.idempotency_kv_bucket):
        if not _decode_key(value).accepted:
            yield f"{name} of {value.decode()}"


async def _entries(connection: Connection, bucket: str) -> AsyncIterator[tuple[str, bytes]]:
    for message in await read_everything(connection, f"KV_{bucket}", f"$KV.{bucket}.*"):
        if "KV-Operation" not in message.headers:
            yield message.subject.rpartition(".")[2], message.data
