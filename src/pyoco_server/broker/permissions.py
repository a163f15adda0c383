"""The NATS permissions of gateways and workers, and no more than each needs.

Workers run user code, so their rights matter most, and permissions alone do not confine them: the server
sends replies with its own authority to the reply subject of a request. A worker that may read its journal
could have the server reply into the bucket of API keys, or into the JetStream API. So workers have an
account of their own, into which only the subjects below are imported: their reply subjects are subjects of
that account, where nothing listens.

For the same reason they may not create consumers, which deliver to any subject: an administrator creates
those of the tags in use (`pyoco-server-admin nats-setup`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyoco_server.broker.jetstream.stream_cursor import reader_access
from pyoco_server.broker.queue.advisories import advisory_subject
from pyoco_server.broker.queue.tag_consumers import consumer_name
from pyoco_server.broker.queue.wake_up import wake_up_subject
from pyoco_server.broker.queue.work_queue import ack_subject
from pyoco_server.broker.stores.triggers.hook_messages import intake_access
from pyoco_server.broker.stores.waits.wait_event_queue import notify_access
from pyoco_server.broker.streams_and_buckets import resources, worker_resources
from pyoco_server.config import NatsBackendConfig

_API: Final = "$JS.API"
# Where clients receive replies.
_INBOXES: Final = "_INBOX.>"


@dataclass(frozen=True, slots=True)
class WorkerAccess:
    """The imports of an account of workers."""

    # Subjects to publish to, with one reply or none.
    requests: list[str]
    # Subjects to publish to, with several replies.
    streamed: list[str]
    # Subjects to subscribe to.
    subscribed: list[str]


@dataclass(frozen=True, slots=True)
class UserAccess:
    """The permissions of a user within its account."""

    publish: list[str]
    subscribe: list[str]


def worker_access(config: NatsBackendConfig, tags: Sequence[str] = ()) -> WorkerAccess:
    """For workers of these tags; without any, of every tag that has a consumer."""
    work, journal = config.work_stream, config.journal_stream
    runs, workers = f"KV_{config.runs_kv_bucket}", f"KV_{config.workers_kv_bucket}"
    waits, usage = f"KV_{config.waits_kv_bucket}", f"KV_{config.artifact_usage_kv_bucket}"
    wheels = f"OBJ_{config.wheel_object_store_bucket}"
    consumers = [consumer_name(tag) for tag in tags] or ["*"]
    # Results may be pickles: what a group of workers reads, no other group may write.
    journals = [f"{config.journal_subject_prefix}.{tag}.*" for tag in tags or ["*"]]
    # Nor may another group read the objects: each message is read by its subject.
    objects = [f"{config.run_object_subject_prefix}.{tag}.>" for tag in tags or ["*"]]
    return WorkerAccess(
        requests=[
            f"{_API}.INFO",
            *(f"{_API}.STREAM.INFO.{stream.name}" for stream in worker_resources(config)),
            *(f"{_API}.STREAM.MSG.GET.{stream}" for stream in (work, journal, runs, waits, workers, wheels)),
            f"{_API}.STREAM.MSG.GET.{usage}",
            *(f"{_API}.CONSUMER.INFO.{work}.{consumer}" for consumer in consumers),
            *(f"{ack_subject(work, consumer)}.>" for consumer in consumers),
            f"$KV.{config.runs_kv_bucket}.*",
            f"$KV.{config.waits_kv_bucket}.*.*",
            f"$KV.{config.workers_kv_bucket}.*",
            f"$KV.{config.flows_kv_bucket}.*.*",
            *journals,
            *objects,
            *(f"{_API}.DIRECT.GET.{config.run_object_stream}.{each}" for each in objects),
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
        subscribed=[wake_up_subject("*"), f"$O.{config.wheel_object_store_bucket}.M.>"],
    )


def gateway_access(config: NatsBackendConfig) -> UserAccess:
    """For gateways. They use every stream and bucket, and create those that are missing."""
    streams = [str(stream.name) for stream in resources(config)]
    # Of what starts runs: triggers and agent requests.
    start_buckets = (config.triggers_kv_bucket, config.event_retries_kv_bucket, config.requests_kv_bucket)
    buckets = (
        config.runs_kv_bucket,
        config.waits_kv_bucket,
        config.idempotency_kv_bucket,
        config.workers_kv_bucket,
        config.lease_kv_bucket,
        config.artifact_usage_kv_bucket,
        config.bulk_kv_bucket,
        config.wheel_history_kv_bucket,
        config.schedules_kv_bucket,
        config.signals_kv_bucket,
        *start_buckets,
        config.receipts_kv_bucket,
        config.views_kv_bucket,
        config.alerts_kv_bucket,
    )
    # Those that each gateway follows.
    followed = (
        f"KV_{config.runs_kv_bucket}",
        f"KV_{config.waits_kv_bucket}",
        f"KV_{config.schedules_kv_bucket}",
        f"KV_{config.signals_kv_bucket}",
        *(f"KV_{bucket}" for bucket in start_buckets),
        f"KV_{config.alerts_kv_bucket}",
        config.event_stream,
        config.audit_stream,
        config.audit_log_stream,
        config.hook_delivery_stream,
    )
    wheels = config.wheel_object_store_bucket
    cleaned = (
        config.journal_stream,
        config.run_object_stream,
        config.run_log_stream,
        config.wait_event_stream,
        f"KV_{config.runs_kv_bucket}",
        f"KV_{config.waits_kv_bucket}",
        f"KV_{config.workers_kv_bucket}",
        f"KV_{config.flows_kv_bucket}",
        f"KV_{config.schedules_kv_bucket}",
        f"KV_{config.signals_kv_bucket}",
        *(f"KV_{bucket}" for bucket in start_buckets),
        f"KV_{config.alerts_kv_bucket}",
        f"KV_{config.receipts_kv_bucket}",
        config.audit_stream,
        config.hook_delivery_stream,
        f"OBJ_{wheels}",
    )
    return UserAccess(
        publish=[
            *_gateway_requests(config, streams=streams, followed=followed, cleaned=cleaned),
            *(f"$KV.{bucket}.>" for bucket in buckets),
            *_gateway_messages(config),
        ],
        subscribe=[_INBOXES, *_gateway_subscriptions(config, start_buckets)],
    )


def _gateway_requests(
    config: NatsBackendConfig, *, streams: Sequence[str], followed: Sequence[str], cleaned: Sequence[str]
) -> list[str]:
    """Requests to JetStream, and acknowledgements."""
    return [
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
        # To hand over the deliveries of a worker that has died.
        f"{ack_subject(config.work_stream, '*')}.>",
        *notify_access(config),
        *intake_access(config),
        *(subject for stream in followed for subject in reader_access(stream)),
    ]


def _gateway_messages(config: NatsBackendConfig) -> list[str]:
    """What gateways write besides the records of their buckets."""
    return [
        # When a key was used; the keys themselves are written by administrators only.
        f"$KV.{config.auth_kv_bucket}.used.*",
        f"$O.{config.wheel_object_store_bucket}.>",
        f"{config.work_subject_prefix}.>",
        f"{config.dlq_subject_prefix}.>",
        f"{config.journal_subject_prefix}.*.*",
        f"{config.run_object_subject_prefix}.>",
        f"{config.run_log_subject_prefix}.*",
        f"{config.wait_event_subject_prefix}.*.*.*",
        f"{config.event_subject_prefix}.*.*.*",
        f"{config.audit_subject_prefix}.>",
        f"{config.audit_log_subject_prefix}.*.*",
        f"{config.hook_delivery_subject_prefix}.*.*.*.*",
        wake_up_subject("*"),
    ]


def _gateway_subscriptions(config: NatsBackendConfig, start_buckets: Sequence[str]) -> list[str]:
    """What each gateway follows."""
    return [
        f"$KV.{config.runs_kv_bucket}.*",
        f"$KV.{config.waits_kv_bucket}.>",
        f"$KV.{config.schedules_kv_bucket}.>",
        f"$KV.{config.signals_kv_bucket}.>",
        *(f"$KV.{bucket}.>" for bucket in start_buckets),
        f"$KV.{config.alerts_kv_bucket}.>",
        f"$KV.{config.workers_kv_bucket}.*",
        f"$KV.{config.auth_kv_bucket}.>",
        f"$O.{config.wheel_object_store_bucket}.M.>",
        f"{config.journal_subject_prefix}.>",
        f"{config.run_log_subject_prefix}.*",
        f"{config.event_subject_prefix}.*.*.*",
        f"{config.audit_subject_prefix}.>",
        advisory_subject(config),
    ]
