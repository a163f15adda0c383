"""The streams and buckets that must exist: created when missing.

Existing ones keep their options, except those that this version depends on (stream_options.py): these are
changed, if the NATS user may change them. A stream that cannot be used is reported, and nothing is accepted.
"""

import logging
from typing import Any

from nats.js.api import DiscardPolicy, RetentionPolicy, StorageType, StreamConfig

from pyoco_server.broker.client.connection import Connection, NoResponders
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.stream_options import SHORTEST_WINDOW_SEC, change, differences
from pyoco_server.broker.queue.advisories import advisory_subject
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsUnavailable, UnusableStream

log = logging.getLogger(__name__)

# JetStream API level 4 came with nats-server 2.14; an older server silently ignores what we rely on.
_MIN_API_LEVEL = 4
_MIN_SERVER = "2.14"

# Longer than any retry of a publish, so that a repeated publish of one job is stored once.
_DEDUPLICATION_WINDOW_SEC = 120.0

# Per wait and kind of event: of attempts that are refused again and again, the newest are enough.
_WAIT_EVENTS_OF_A_KIND = 100

# Advisories that are not handled because no gateway runs; the sweep finds their runs without them as well.
_ADVISORY_MAX_AGE_SEC = 30 * 86400.0
_ADVISORY_MAX_MSGS = 1_000_000

_CHOOSE = "This cannot be changed: choose another name for the stream in the settings, or remove it"
_ADOPT = "Run `pyoco-server-admin adopt` with a NATS user that may change streams"

# Not enabled on this server; not enabled for this account.
_JETSTREAM_OFF = {10039, 10076}


async def ensure_resources(connection: Connection) -> None:
    """Check the server and create what is missing; UnusableStream names what cannot be used."""
    await _check_server(connection)
    await _ensure(connection, resources(connection.config))


async def ensure_worker_resources(connection: Connection) -> None:
    """The same for what a worker uses; it may have no access to the others."""
    await _check_server(connection)
    await _ensure(connection, worker_resources(connection.config))


async def ensure_api_keys(connection: Connection) -> None:
    """The same for the bucket of API keys, and the audit log of what is done with them."""
    await _check_server(connection)
    config = connection.config
    needed = (f"KV_{config.auth_kv_bucket}", config.audit_log_stream)
    await _ensure(connection, [stream for stream in resources(config) if stream.name in needed])


async def _ensure(connection: Connection, streams: list[StreamConfig]) -> None:
    unusable = [problem for stream in streams for problem in await _problems(connection, stream)]
    if unusable:
        raise UnusableStream("; ".join(unusable))


async def _problems(connection: Connection, config: StreamConfig) -> list[str]:
    """Why it cannot be used, after everything was changed that can be."""
    applies = await jetstream_api.ensure_stream(connection, config)
    found = differences(config, applies)
    problems = [f"{each} ({each.why}). {_CHOOSE}" for each in found if not each.changeable]
    changes = [each for each in found if each.changeable]
    if not changes or problems:
        return problems
    try:
        await change(connection, applies, changes)
    except (jetstream_api.ApiRefused, NatsUnavailable) as refused:
        for each in changes:
            if not each.needed:
                # Not worth an outage.
                log.warning("%s: %s (%s). %s", each, each.why, refused, _ADOPT)
        return [f"{each} ({each.why}): {refused}. {_ADOPT}" for each in changes if each.needed]
    for each in changes:
        log.info("changed %s: %s", each, each.why)
    return []


def resources(config: NatsBackendConfig) -> list[StreamConfig]:
    """All streams; buckets and object stores are streams of a known form."""
    wheels = config.wheel_object_store_bucket
    return [
        _stream(
            config,
            config.work_stream,
            [f"{config.work_subject_prefix}.>"],
            retention=RetentionPolicy.WORK_QUEUE,
            duplicate_window=_DEDUPLICATION_WINDOW_SEC,
        ),
        _stream(
            config,
            config.dlq_stream,
            [f"{config.dlq_subject_prefix}.>"],
            max_age=config.dlq_max_age_sec,
            max_msgs=config.dlq_max_msgs,
            max_bytes=config.dlq_max_bytes,
        ),
        _stream(config, config.journal_stream, [f"{config.journal_subject_prefix}.>"]),
        _stream(
            config,
            config.run_object_stream,
            [f"{config.run_object_subject_prefix}.>"],
            # A part that is written again replaces itself, a record the earlier one.
            max_msgs_per_subject=1,
        ),
        _stream(
            config,
            config.run_log_stream,
            [f"{config.run_log_subject_prefix}.*"],
            max_age=config.run_log_max_age_sec,
            max_bytes=config.run_log_max_bytes,
        ),
        _stream(
            config,
            config.wait_event_stream,
            [f"{config.wait_event_subject_prefix}.*.*.*"],
            max_age=config.wait_event_max_age_sec,
            max_msgs_per_subject=_WAIT_EVENTS_OF_A_KIND,
            duplicate_window=_DEDUPLICATION_WINDOW_SEC,
        ),
        _stream(
            config,
            config.advisory_stream,
            [advisory_subject(config)],
            max_age=_ADVISORY_MAX_AGE_SEC,
            max_msgs=_ADVISORY_MAX_MSGS,
        ),
        _stream(
            config,
            config.event_stream,
            [f"{config.event_subject_prefix}.*.*.*"],
            max_age=config.event_max_age_sec,
            max_bytes=config.event_max_bytes,
        ),
        _bucket(config, config.runs_kv_bucket),
        # No TTL: an expired wait is still a record.
        _bucket(config, config.waits_kv_bucket),
        _bucket(config, config.idempotency_kv_bucket, ttl_sec=config.idempotency_ttl_sec),
        # No TTL: a worker's record must outlive the disconnect timeout, and keep `hidden`.
        _bucket(config, config.workers_kv_bucket),
        _bucket(config, config.flows_kv_bucket),
        _bucket(config, config.lease_kv_bucket),
        _bucket(config, config.artifact_usage_kv_bucket),
        _bucket(config, config.bulk_kv_bucket, ttl_sec=config.bulk_ttl_sec),
        _bucket(config, config.auth_kv_bucket),
        _bucket(config, config.wheel_history_kv_bucket, ttl_sec=config.wheel_history_ttl_sec),
        _bucket(config, config.schedules_kv_bucket),
        _bucket(config, config.signals_kv_bucket),
        *_trigger_resources(config),
        _bucket(config, config.requests_kv_bucket),
        _bucket(config, config.views_kv_bucket),
        _bucket(config, config.alerts_kv_bucket),
        _stream(
            config,
            config.audit_log_stream,
            [f"{config.audit_log_subject_prefix}.*.*"],
            # Each entry has a subject of its own, and is never replaced or deleted by a gateway.
            max_msgs_per_subject=1,
            max_age=config.audit_log_max_age_sec,
            max_bytes=config.audit_log_max_bytes,
        ),
        _stream(
            config,
            f"OBJ_{wheels}",
            [f"$O.{wheels}.C.>", f"$O.{wheels}.M.>"],
            discard=DiscardPolicy.NEW,
            allow_rollup_hdrs=True,
        ),
    ]


def _trigger_resources(config: NatsBackendConfig) -> list[StreamConfig]:
    """Of workflow events and hooks."""
    return [
        _bucket(config, config.triggers_kv_bucket),
        # Each receipt has a time to live of its own.
        _bucket(config, config.receipts_kv_bucket, allow_msg_ttl=True),
        _bucket(config, config.event_retries_kv_bucket),
        _stream(
            config,
            config.audit_stream,
            [f"{config.audit_subject_prefix}.>"],
            # A row may be published again with more in it.
            max_msgs_per_subject=1,
            max_age=config.audit_max_age_sec,
            max_bytes=config.audit_max_bytes,
        ),
        _stream(
            config,
            config.event_intake_stream,
            [f"{config.event_intake_subject_prefix}.>"],
            retention=RetentionPolicy.WORK_QUEUE,
            max_age=config.event_max_age_sec,
            # An id is one of a hook, and receipts know which it has used. JetStream knows only whether any
            # message had it.
            duplicate_window=SHORTEST_WINDOW_SEC,
        ),
        _stream(
            config,
            config.hook_delivery_stream,
            [f"{config.hook_delivery_subject_prefix}.*.*.*.*"],
            max_msgs_per_subject=config.hook_deliveries_max,
            max_age=config.hook_delivery_max_age_sec,
            max_bytes=config.hook_delivery_max_bytes,
        ),
    ]


def worker_resources(config: NatsBackendConfig) -> list[StreamConfig]:
    """The streams that a worker uses."""
    used = {
        config.work_stream,
        config.dlq_stream,
        config.journal_stream,
        config.run_object_stream,
        config.run_log_stream,
        config.wait_event_stream,
        f"KV_{config.runs_kv_bucket}",
        f"KV_{config.waits_kv_bucket}",
        f"KV_{config.workers_kv_bucket}",
        f"KV_{config.artifact_usage_kv_bucket}",
        f"OBJ_{config.wheel_object_store_bucket}",
    }
    return [stream for stream in resources(config) if stream.name in used]


def _stream(config: NatsBackendConfig, name: str, subjects: list[str], **options: Any) -> StreamConfig:
    return StreamConfig(
        name=name,
        subjects=subjects,
        storage=StorageType.FILE,
        num_replicas=config.nats_replicas,
        allow_direct=True,
        **options,
    )


def _bucket(
    config: NatsBackendConfig, name: str, *, ttl_sec: float = 0.0, allow_msg_ttl: bool = False
) -> StreamConfig:
    return _stream(
        config,
        f"KV_{name}",
        [f"$KV.{name}.>"],
        max_msgs_per_subject=1,
        max_age=ttl_sec,
        discard=DiscardPolicy.NEW,
        deny_delete=True,
        # Left out where it is not used: such a bucket then has the options of earlier versions.
        allow_msg_ttl=allow_msg_ttl or None,
    )


async def _check_server(connection: Connection) -> None:
    version = str(connection.client.connected_server_version)
    try:
        info = await jetstream_api.call(connection, "INFO")
    except (NoResponders, jetstream_api.ApiRefused) as refused:
        if isinstance(refused, jetstream_api.ApiRefused) and refused.err_code not in _JETSTREAM_OFF:
            # A cluster that elects its leader, for example.
            raise connection.unavailable(str(refused)) from refused
        raise NatsUnavailable(
            f"JetStream is not usable on this server ({refused}); start it with JetStream enabled "
            "(nats-server -js -sd DIR) and allow it for this account"
        ) from refused
    level = info.get("api", {}).get("level", 0)
    if level < _MIN_API_LEVEL:
        raise NatsUnavailable(
            f"this NATS server ({version}, JetStream API level {level}) is too old; nats-server "
            f"{_MIN_SERVER} or newer is needed: upgrade it, or use the embedded one (pyoco-server dev)"
        )
