"""The streams and buckets that must exist, made when missing and left alone when present."""

from collections.abc import Awaitable, Callable
from functools import partial

import msgspec
import nats.errors
import nats.js.errors
from nats.js.api import (
    KeyValueConfig,
    ObjectStoreConfig,
    RetentionPolicy,
    StorageType,
    StreamConfig,
)

from pyoco_server.broker.connection import Connection, NoResponders
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsUnavailable

# JetStream API level 4 came with nats-server 2.14; an older server silently ignores what we rely on.
_MIN_API_LEVEL = 4
_MIN_SERVER = "2.14"

# Stream name in use; consumer or stream exists with another configuration.
_ALREADY_EXISTS = {10058, 10065}

# Longer than any retry of a publish by us, so that a repeated publish of one job is stored once.
_DEDUPLICATION_WINDOW_SEC = 120.0


class _ApiStats(msgspec.Struct):
    level: int = 0


class _AccountInfo(msgspec.Struct):
    api: _ApiStats | None = None
    error: dict[str, object] | None = None


class IncompatibleServer(NatsUnavailable):
    """The NATS server is too old, or has no JetStream."""


async def ensure_resources(connection: Connection) -> None:
    """Check the server and make what is missing; existing configuration is respected."""
    await _check_server(connection)
    config = connection.config
    context = connection.client.jetstream(timeout=config.nats_request_timeout_sec)
    wheels = config.wheel_object_store_bucket
    try:
        for stream in (work_stream(config), dlq_stream(config)):
            await _ensure(partial(context.stream_info, str(stream.name)), partial(context.add_stream, stream))
        for bucket in buckets(config):
            await _ensure(
                partial(context.key_value, bucket.bucket), partial(context.create_key_value, bucket)
            )
        await _ensure(
            partial(context.object_store, wheels),
            partial(context.create_object_store, wheels, ObjectStoreConfig(replicas=config.nats_replicas)),
        )
    except nats.errors.Error as error:
        raise connection.unavailable(f"cannot prepare streams and buckets: {error}") from error


def work_stream(config: NatsBackendConfig) -> StreamConfig:
    return StreamConfig(
        name=config.work_stream,
        subjects=[f"{config.work_subject_prefix}.>"],
        retention=RetentionPolicy.WORK_QUEUE,
        storage=StorageType.FILE,
        num_replicas=config.nats_replicas,
        duplicate_window=_DEDUPLICATION_WINDOW_SEC,
        allow_direct=True,
    )


def dlq_stream(config: NatsBackendConfig) -> StreamConfig:
    return StreamConfig(
        name=config.dlq_stream,
        subjects=[f"{config.dlq_subject_prefix}.>"],
        retention=RetentionPolicy.LIMITS,
        storage=StorageType.FILE,
        num_replicas=config.nats_replicas,
        max_age=config.dlq_max_age_sec,
        max_msgs=config.dlq_max_msgs,
        max_bytes=config.dlq_max_bytes,
        allow_direct=True,
    )


def buckets(config: NatsBackendConfig) -> list[KeyValueConfig]:
    """All KV buckets. Worker records have no TTL: they must outlive the disconnect time-out."""
    names_and_ttls = [
        (config.runs_kv_bucket, None),
        (config.workers_kv_bucket, None),
        (config.auth_kv_bucket, None),
        (config.wheel_history_kv_bucket, config.wheel_history_ttl_sec),
    ]
    return [
        KeyValueConfig(bucket=name, history=1, ttl=ttl, replicas=config.nats_replicas, direct=True)
        for name, ttl in names_and_ttls
    ]


async def _check_server(connection: Connection) -> None:
    try:
        reply = await connection.request("$JS.API.INFO")
        info = msgspec.json.decode(reply.data, type=_AccountInfo)
    except NoResponders:
        info = _AccountInfo(error={"description": "it does not answer"})
    version = str(connection.client.connected_server_version)
    if info.error is not None:
        raise IncompatibleServer(
            f"JetStream is not usable on this server ({info.error.get('description')}); "
            "start it with JetStream enabled (nats-server -js -sd DIR) and allow it for this account"
        )
    level = info.api.level if info.api else 0
    if level < _MIN_API_LEVEL:
        raise IncompatibleServer(
            f"this NATS server ({version}, JetStream API level {level}) is too old; nats-server "
            f"{_MIN_SERVER} or newer is needed: upgrade it, or use the embedded one (pyoco-server dev)"
        )


async def _ensure(look: Callable[[], Awaitable[object]], make: Callable[[], Awaitable[object]]) -> None:
    try:
        await look()
    except nats.js.errors.NotFoundError:
        try:
            await make()
        except nats.js.errors.BadRequestError as error:
            # Another gateway or worker made it in the same moment: then it is there, which is all we want.
            if error.err_code not in _ALREADY_EXISTS:
                raise
