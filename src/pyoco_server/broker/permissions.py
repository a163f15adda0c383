"""What each part needs of NATS, and no more: the basis of a server's configuration.

Workers run other people's code, so their rights matter most, and permissions alone do not hold them: the
server sends its answers with its own authority to whatever subject a request names for them. A worker that
may read its journal could have the server answer into the bucket of API keys, or into the JetStream API. So
workers live in an account of their own, into which only the subjects below are imported: what they name for
an answer is a subject of their account, where nothing listens.

For the same reason they may not make consumers, which would deliver wherever they say: an administrator
makes those of the tags that are in use (`pyoco-server-admin nats-setup`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyoco_server.broker.queue.advisories import advisory_subject
from pyoco_server.broker.queue.wake_up import wake_up_subject
from pyoco_server.broker.queue.work_queue import consumer_name
from pyoco_server.broker.resources import resources, worker_resources
from pyoco_server.broker.stores.wait_notices import notify_access
from pyoco_server.config import NatsBackendConfig

_API: Final = "$JS.API"
# What the server itself has clients listen on for answers.
_INBOXES: Final = "_INBOX.>"


@dataclass(frozen=True, slots=True)
class WorkerAccess:
    """What an account of workers is lent."""

    # Subjects that they may publish to, and are answered on once or not at all.
    requests: list[str]
    # The same, where one request has several answers.
    streamed: list[str]
    # Subjects that they may listen to.
    heard: list[str]


@dataclass(frozen=True, slots=True)
class UserAccess:
    """What a user may do within its account."""

    publish: list[str]
    subscribe: list[str]


def worker_access(config: NatsBackendConfig, tags: Sequence[str] = ()) -> WorkerAccess:
    """For workers of these tags; without any, of every tag that has a consumer."""
    work, journal = config.work_stream, config.journal_stream
    runs, workers = f"KV_{config.runs_kv_bucket}", f"KV_{config.workers_kv_bucket}"
    waits = f"KV_{config.waits_kv_bucket}"
    wheels = f"OBJ_{config.wheel_object_store_bucket}"
    consumers = [consumer_name(tag) for tag in tags] or ["*"]
    return WorkerAccess(
        requests=[
            f"{_API}.INFO",
            *(f"{_API}.STREAM.INFO.{stream.name}" for stream in worker_resources(config)),
            *(f"{_API}.STREAM.MSG.GET.{stream}" for stream in (work, journal, runs, waits, workers, wheels)),
            *(f"{_API}.CONSUMER.INFO.{work}.{consumer}" for consumer in consumers),
            *(f"$JS.ACK.{work}.{consumer}.>" for consumer in consumers),
            f"$KV.{config.runs_kv_bucket}.*",
            f"$KV.{config.waits_kv_bucket}.*.*",
            f"$KV.{config.workers_kv_bucket}.*",
            f"{config.journal_subject_prefix}.*",
            f"{config.run_log_subject_prefix}.*",
            f"{config.wait_event_subject_prefix}.*.*.*",
            f"{config.dlq_subject_prefix}.>",
        ],
        streamed=[
            *(f"{_API}.CONSUMER.MSG.NEXT.{work}.{consumer}" for consumer in consumers),
            f"{_API}.DIRECT.GET.{journal}",
            f"{_API}.DIRECT.GET.{waits}",
            f"{_API}.DIRECT.GET.{wheels}",
        ],
        heard=[wake_up_subject("*"), f"$O.{config.wheel_object_store_bucket}.M.>"],
    )


def gateway_access(config: NatsBackendConfig) -> UserAccess:
    """For gateways. They use every stream and bucket, and make those that are missing."""
    streams = [str(stream.name) for stream in resources(config)]
    buckets = (
        config.runs_kv_bucket,
        config.waits_kv_bucket,
        config.idempotency_kv_bucket,
        config.workers_kv_bucket,
        config.lease_kv_bucket,
        config.bulk_kv_bucket,
        config.wheel_history_kv_bucket,
    )
    wheels = config.wheel_object_store_bucket
    cleaned = (
        config.journal_stream,
        config.run_log_stream,
        config.wait_event_stream,
        f"KV_{config.runs_kv_bucket}",
        f"KV_{config.waits_kv_bucket}",
        f"KV_{config.workers_kv_bucket}",
        f"OBJ_{wheels}",
    )
    return UserAccess(
        publish=[
            f"{_API}.INFO",
            *(f"{_API}.STREAM.{call}.{name}" for call in ("INFO", "CREATE", "MSG.GET") for name in streams),
            *(f"{_API}.DIRECT.GET.{name}{rest}" for name in streams for rest in ("", ".>")),
            *(
                f"{_API}.STREAM.MSG.DELETE.{name}"
                for name in (config.work_stream, config.dlq_stream, config.advisory_stream)
            ),
            *(f"{_API}.STREAM.PURGE.{name}" for name in cleaned),
            f"{_API}.CONSUMER.INFO.{config.work_stream}.*",
            f"{_API}.CONSUMER.LIST.{config.work_stream}",
            *notify_access(config),
            *(f"$KV.{bucket}.>" for bucket in buckets),
            # When a key was used; the keys themselves only an administrator writes.
            f"$KV.{config.auth_kv_bucket}.used.*",
            f"$O.{wheels}.>",
            f"{config.work_subject_prefix}.>",
            f"{config.dlq_subject_prefix}.>",
            f"{config.journal_subject_prefix}.*",
            f"{config.run_log_subject_prefix}.*",
            f"{config.wait_event_subject_prefix}.*.*.*",
            wake_up_subject("*"),
        ],
        subscribe=[
            _INBOXES,
            f"$KV.{config.runs_kv_bucket}.*",
            f"$KV.{config.waits_kv_bucket}.>",
            f"$KV.{config.workers_kv_bucket}.*",
            f"$KV.{config.auth_kv_bucket}.>",
            f"$O.{wheels}.M.>",
            f"{config.journal_subject_prefix}.*",
            f"{config.run_log_subject_prefix}.*",
            advisory_subject(config),
        ],
    )
