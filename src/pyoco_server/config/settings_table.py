"""All settings: default, bounds and one line of help of each. The field `nats_url` is PYOCO_NATS_URL."""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, Final

from dotenv import dotenv_values

from pyoco_server.config.setting import (
    CHAT_WEBHOOK,
    CONTRACT_PREFIX,
    ENV_PREFIX,
    HEADER,
    HOSTS,
    HTTP_URL,
    NAME,
    NAMED_TEXTS,
    NAMED_URLS,
    NATS_URLS,
    NETWORKS,
    SECRETS_KEYS,
    SUBJECT,
    TAG,
    Setting,
    setting,
    setting_of,
    split_urls,
)
from pyoco_server.config.setting_conflicts import conflicts
from pyoco_server.errors import ConfigError, FieldProblem

_log = logging.getLogger(__name__)

_MIB: Final = 1024 * 1024
# A worker extends its deliveries at most ten times a second, and needs some tries within AckWait.
MIN_ACK_WAIT_SEC: Final = 1.0

# One for each group of the reference page.
_nats = partial(setting, "NATS")
_runs = partial(setting, "Runs")
_waits = partial(setting, "Waits for people")
_signals = partial(setting, "Schedules, signals and events")
_triggers = partial(setting, "Workflow events")
_contract = partial(_triggers, prefix=CONTRACT_PREFIX)
_audit = partial(setting, "Audit log")
_agent = partial(setting, "Agent requests")
_hooks = partial(setting, "Hooks")
_secrets = partial(setting, "Secrets at rest")
_alerts = partial(setting, "Alerts")
_artifacts = partial(setting, "Artifacts")
_run_logs = partial(setting, "Run logs")
_gateway = partial(setting, "Gateway")
_http = partial(setting, "HTTP")
_client = partial(setting, "Client")
_auth = partial(setting, "HTTP authentication")
_worker = partial(setting, "Worker")
_heartbeats = partial(setting, "Heartbeats")
_queue = partial(setting, "Queue")
_sweep = partial(setting, "Sweep")
_dead_letters = partial(setting, "Dead letters")
_bulk_operations = partial(setting, "Bulk operations")
_wheels = partial(setting, "Wheels")
_dashboard = partial(setting, "Dashboard")
_logging = partial(setting, "Logging")
_tracing = partial(setting, "Tracing")
_env_file = partial(setting, "Environment file")
_processes = partial(setting, "Processes")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class NatsBackendConfig:
    """The settings of a gateway, a worker or a client, validated on creation."""

    nats_url: str = _nats(
        "nats://127.0.0.1:4222",
        "The NATS server; several servers of one cluster are separated by commas.",
        form=NATS_URLS,
    )
    nats_replicas: int = _nats(
        1, "Number of copies of every stream and bucket that is created.", minimum=1, maximum=5
    )
    nats_request_timeout_sec: float = _nats(1.5, "Timeout of one request to NATS.", above=0, maximum=2.0)
    nats_data_dir: str = _nats(".pyoco/nats", "Data folder of the embedded NATS server.")
    nats_free_bytes_warning: int = _nats(
        1024 * _MIB,
        "Warn when NATS has less space left: on the disk of the embedded server, or within a limit of the "
        "account or of a stream. If that is smaller than ten times this value, warn below a tenth of it. "
        "0: no warnings.",
        minimum=0,
    )
    nats_user: str = _nats(
        "", "NATS user, with PYOCO_NATS_PASSWORD. Not together with a user in PYOCO_NATS_URL."
    )
    nats_password: str = _nats("", "The password of PYOCO_NATS_USER.", secret=True)
    nats_nkey_seed_file: str = _nats(
        "", "A file with the nkey seed (SU...) of the NATS user. Needs pyoco-server[nkeys]."
    )
    nats_creds_file: str = _nats(
        "", "A .creds file (JWT and seed) of the NATS user. Needs pyoco-server[nkeys]."
    )
    nats_tls_ca_file: str = _nats(
        "",
        "The certificates (PEM) of the authorities whose NATS servers are trusted; not set: those of the "
        "system. When set, a server without TLS is rejected, as with tls:// in PYOCO_NATS_URL.",
    )
    nats_tls_cert_file: str = _nats(
        "", "The client certificate (PEM) for NATS. When set, TLS is required, as above."
    )
    nats_tls_key_file: str = _nats("", "The key (PEM) of that certificate.")
    work_stream: str = _nats("PYOCO_WORK", "The stream of queued jobs.", form=NAME)
    work_subject_prefix: str = _nats(
        "pyoco.work", "A job is published to this prefix, a dot, and its tag.", form=SUBJECT
    )
    runs_kv_bucket: str = _nats("pyoco_runs", "The bucket of run snapshots.", form=NAME)
    workers_kv_bucket: str = _nats("pyoco_workers", "The bucket of worker records.", form=NAME)
    flows_kv_bucket: str = _nats("pyoco_flows", "The bucket of what workers say of their flows.", form=NAME)

    default_tag: str = _runs("default", "The tag of a run without one.", form=TAG)
    max_run_snapshot_bytes: int = _runs(
        262144, "Maximum size of a run snapshot; task records are truncated to fit.", minimum=1024
    )
    workflow_yaml_max_bytes: int = _runs(
        262144, "Maximum size of a flow.yaml; a larger one is rejected with 413.", minimum=1
    )
    run_retention_sec: float = _runs(
        0.0,
        "Delete a run this long after its end, with its journal, its log, its results and its files. "
        "0 keeps every run.",
        minimum=0,
    )
    journal_stream: str = _runs(
        "PYOCO_JOURNAL", "The stream of results of finished tasks, for resuming runs.", form=NAME
    )
    journal_subject_prefix: str = _runs(
        "pyoco.journal",
        "A finished task is journalled under this prefix, the tag and the id of its run, joined by dots.",
        form=SUBJECT,
    )
    run_object_stream: str = _runs(
        "PYOCO_OBJECTS", "The stream of large results of runs, and of their files.", form=NAME
    )
    run_object_subject_prefix: str = _runs(
        "pyoco.objects",
        "An object is stored under this prefix, the tag and the id of its run, joined by dots.",
        form=SUBJECT,
    )
    result_max_bytes: int = _runs(
        1024 * _MIB,
        "The largest value that a task may return and that is stored whole. Of a larger one, and with 0 of "
        "each that does not fit into the run's snapshot, only the beginning is kept; the run does not fail.",
        minimum=0,
    )
    journal_value_max_bytes: int = _runs(
        64 * _MIB,
        "A larger result is not journalled; its task is executed again when the run is resumed.",
        minimum=1,
    )
    idempotency_kv_bucket: str = _runs("pyoco_idempotency", "The bucket of idempotency keys.", form=NAME)
    idempotency_ttl_sec: int = _runs(86400, "How long an Idempotency-Key is kept.", minimum=60)
    views_kv_bucket: str = _runs("pyoco_views", "The bucket of saved views of the list of runs.", form=NAME)
    waits_kv_bucket: str = _waits("pyoco_waits", "The bucket of waits.", form=NAME)
    wait_event_stream: str = _waits(
        "PYOCO_WAIT_EVENTS",
        "The stream of wait events: opened, answered, refused, expired, cancelled and so on.",
        form=NAME,
    )
    wait_event_subject_prefix: str = _waits(
        "pyoco.wait_events",
        "A wait event is published to this prefix, the wait id, and the kind of event.",
        form=SUBJECT,
    )
    wait_event_max_age_sec: int = _waits(31_536_000, "How long wait events are kept; 0: forever.", minimum=0)
    wait_timeout_sec: float = _waits(86400.0, "Default timeout of a wait.", above=0, maximum=31_622_400)
    wait_answer_max_bytes: int = _waits(
        256 * 1024, "Maximum size of the body of an answer, in bytes.", minimum=1024, maximum=16 * _MIB
    )
    public_url: str = _waits(
        "", "Public URL of the gateway (https://host[:port]), used for links in notifications.", form=HTTP_URL
    )
    notify_url: str = _waits(
        "",
        "Default receiver: URL to POST to when a wait is opened, changed or closed.",
        form=HTTP_URL,
    )
    notify_secret: str = _waits("", "Key for signing notifications (HMAC-SHA256).", secret=True)
    notify_targets: str = _waits(
        "",
        'Further receivers by name, which a question chooses with notify="finance": finance=https://...',
        form=NAMED_URLS,
        secret=True,
    )
    notify_target_secrets: str = _waits(
        "",
        "Keys of these receivers by name; PYOCO_NOTIFY_SECRET for the others.",
        form=NAMED_TEXTS,
        secret=True,
    )
    notify_flow_targets: str = _waits(
        "", "Receivers of all questions of a flow: invoice=finance,hr-*=people.", form=NAMED_TEXTS
    )
    notify_timeout_sec: float = _waits(10.0, "Timeout of a notification request.", above=0, maximum=60.0)
    notify_max_age_sec: int = _waits(
        86400, "How long a notification is retried before it is dropped.", minimum=60
    )
    alerts_kv_bucket: str = _alerts("pyoco_alerts", "The bucket of alerts and their history.", form=NAME)
    alert_interval_sec: float = _alerts(
        10.0, "How often the conditions of alerts are evaluated.", above=0, maximum=3600.0
    )
    alert_networks: str = _alerts(
        "",
        "Networks that are not public, and that messages of alerts may be sent to all the same, such as "
        "10.0.0.0/8.",
        form=NETWORKS,
        comma_separated=True,
    )
    smtp_host: str = _alerts("", "The mail server for alerts; not set: alerts cannot be sent by mail.")
    smtp_port: int = _alerts(587, "Its port.", minimum=1, maximum=65_535)
    smtp_security: str = _alerts(
        "starttls",
        "How the connection to it is encrypted: starttls, tls from the beginning, or none.",
        choices=("starttls", "tls", "none"),
    )
    smtp_user: str = _alerts("", "The user for it, with PYOCO_SMTP_PASSWORD.")
    smtp_password: str = _alerts("", "The password of PYOCO_SMTP_USER.", secret=True)
    smtp_from: str = _alerts("", "The sender of mail (default: pyoco-server at PYOCO_SMTP_HOST).")
    schedules_kv_bucket: str = _signals("pyoco_schedules", "The bucket of schedules.", form=NAME)
    signals_kv_bucket: str = _signals(
        "pyoco_signals", "The bucket of the signals that were sent to runs.", form=NAME
    )
    signal_max_bytes: int = _signals(
        64 * 1024,
        "Maximum size of the data of a signal or an event, as JSON, in bytes.",
        minimum=1024,
        maximum=256 * 1024,
    )
    event_stream: str = _signals("PYOCO_EVENTS", "The stream of events that were sent.", form=NAME)
    event_subject_prefix: str = _signals(
        "pyoco.events",
        "An event is published to this prefix, its tenant, and digests of its name and of its id.",
        form=SUBJECT,
    )
    event_max_age_sec: int = _signals(
        604800,
        "How long events are kept: a wait is answered by an event of this age at most. "
        "It applies when the stream is created.",
        minimum=60,
    )
    event_max_bytes: int = _signals(
        256 * _MIB, "Maximum size of all events; the oldest are removed first.", minimum=1
    )
    workflow_event_token: str = _contract(
        "",
        "The token that senders of workflow events give: `?token=`, the header x-workflow-event-token or "
        "`Authorization: Bearer`. Not set: no token is checked; with API keys required, senders need one.",
        secret=True,
    )
    workflow_event_max_receipts: int = _contract(
        1000,
        "How many idempotency keys of workflow events are kept of each tenant; the oldest are removed first.",
        minimum=1,
        maximum=1_000_000,
    )
    workflow_event_receipt_ttl_days: int = _contract(
        90, "How long an idempotency key of a workflow event is kept.", minimum=1, maximum=3650
    )
    workflow_event_retry_max_attempts: int = _contract(
        3, "How often a failed event is sent again before it is escalated.", minimum=1, maximum=10
    )
    workflow_event_retry_base_delay_seconds: int = _contract(
        30,
        "The delay before a failed event is sent again; it doubles with each attempt, up to a day.",
        minimum=1,
        maximum=3600,
    )
    workflow_event_retry_terminal_ttl_days: int = _contract(
        30, "How long a retry job is kept after its end.", minimum=1, maximum=3650
    )
    workflow_event_retry_max_jobs: int = _contract(
        2000,
        "How many retry jobs are kept of each tenant. Beyond that, those that have ended are removed.",
        minimum=10,
        maximum=20_000,
    )
    workflow_event_retry_worker_enabled: bool = _contract(
        True, "Whether gateways execute retry jobs by themselves; otherwise only a drain does."
    )
    workflow_event_retry_worker_poll_seconds: int = _contract(
        30,
        "How often they look for retry jobs at least; one that is due earlier is executed when it is due.",
        minimum=5,
        maximum=3600,
    )
    google_chat_webhook_url: str = _contract(
        "",
        "The Google Chat webhook for escalated retry jobs, unless another one is stored.",
        form=CHAT_WEBHOOK,
        secret=True,
    )
    workflow_event_tenant: str = _triggers(
        "",
        "The tenant of workflow events that come with a token and without an API key; empty: none.",
        form=TAG,
    )
    triggers_kv_bucket: str = _triggers(
        "pyoco_triggers", "The bucket of workflow templates, actions and hooks.", form=NAME
    )
    receipts_kv_bucket: str = _triggers(
        "pyoco_receipts", "The bucket of the idempotency keys of workflow events and hooks.", form=NAME
    )
    event_retries_kv_bucket: str = _triggers(
        "pyoco_event_retries", "The bucket of workflow events that are sent again.", form=NAME
    )
    audit_stream: str = _triggers("PYOCO_AUDIT", "The stream of audit rows.", form=NAME)
    audit_subject_prefix: str = _triggers(
        "pyoco.audit",
        "An audit row is published to this prefix, its kind, its tenant and its id.",
        form=SUBJECT,
    )
    audit_max_age_sec: int = _triggers(63_072_000, "How long audit rows are kept; 0: forever.", minimum=0)
    audit_max_bytes: int = _triggers(
        1024 * _MIB, "Maximum size of all audit rows; the oldest are removed first.", minimum=1
    )
    audit_file: str = _triggers(
        "reports/audit_log.jsonl",
        "The file that audit rows are also written to, one JSON object a line; `off`: none. It is created "
        "with the first row, and can be deleted: it is written again.",
    )
    audit_log_stream: str = _audit("PYOCO_AUDIT_LOG", "The stream of the audit log.", form=NAME)
    audit_log_subject_prefix: str = _audit(
        "pyoco.audit_log",
        "An entry of the audit log is published to this prefix, its tenant and its id.",
        form=SUBJECT,
    )
    audit_log_max_age_sec: int = _audit(
        63_072_000, "How long entries of the audit log are kept; 0: forever.", minimum=0
    )
    audit_log_max_bytes: int = _audit(
        256 * _MIB, "Maximum size of the audit log; the oldest entries are removed first.", minimum=1
    )
    requests_kv_bucket: str = _agent("pyoco_requests", "The bucket of agent requests.", form=NAME)
    agent_repo: str = _agent(
        "",
        "The folder of the Git repository whose requests this gateway serves; `pyoco-server agent` sets it. "
        "Empty: none.",
    )
    agent_tag: str = _agent(
        "",
        "The tag of the repository's worker; `pyoco-server agent` sets it. Empty: it is made of the origin, "
        "the folder and this machine.",
        form=TAG,
    )
    agent_tenant: str = _agent(
        "",
        "The tenant of the repository; required with API keys. Keys of other tenants find no requests.",
        form=TAG,
    )
    event_intake_stream: str = _hooks(
        "PYOCO_EVENTS_IN", "The stream of messages for hooks of the kind `nats`.", form=NAME
    )
    event_intake_subject_prefix: str = _hooks(
        "pyoco.events_in",
        "Such a message is published to this prefix, the tenant of the hook (`=` for none), and its id.",
        form=SUBJECT,
    )
    hook_hosts: str = _hooks(
        "",
        "Host names under which senders of hooks and workflow events reach the gateway, such as "
        "hooks.example.com: nothing else is served under these names. Applies only without API keys.",
        form=HOSTS,
        comma_separated=True,
    )
    hook_body_max_bytes: int = _hooks(
        _MIB,
        "Maximum size of the body of a delivery; a larger one is rejected with 413.",
        minimum=1024,
        maximum=25 * _MIB,
    )
    hook_idempotency_ttl_sec: int = _hooks(
        7_776_000,
        "How long the id of a delivery is kept: a repeated one starts no second run.",
        minimum=60,
    )
    hook_delivery_stream: str = _hooks("PYOCO_DELIVERIES", "The stream of kept deliveries.", form=NAME)
    hook_delivery_subject_prefix: str = _hooks(
        "pyoco.deliveries",
        "A delivery is kept under this prefix, and the tenant, id and incarnation of its hook.",
        form=SUBJECT,
    )
    hook_deliveries_max: int = _hooks(
        200,
        "How many deliveries of each hook are kept. It applies when the stream is created.",
        minimum=1,
        maximum=10_000,
    )
    hook_delivery_max_age_sec: int = _hooks(
        2_592_000, "How long a delivery is kept. It applies when the stream is created.", minimum=60
    )
    hook_delivery_max_bytes: int = _hooks(
        256 * _MIB, "Maximum size of all kept deliveries; the oldest are removed first.", minimum=1
    )
    hook_delivery_body_max_bytes: int = _hooks(
        256 * 1024,
        "A larger body is not kept: its delivery cannot be sent again.",
        minimum=0,
        maximum=512 * 1024,
    )
    secrets_keys: str = _secrets(
        "",
        "Keys that encrypt the stored secrets of hooks and notifications, the same for every gateway: the "
        "first one encrypts, all of them decrypt. `pyoco-server-admin secrets create-key` makes one.",
        form=SECRETS_KEYS,
        secret=True,
        comma_separated=True,
    )
    secrets_key_file: str = _secrets(
        "",
        "A file with such keys, one per line; used if PYOCO_SECRETS_KEYS is not set. With an embedded NATS "
        "server, one is created in its data folder (secrets.key).",
    )
    artifact_max_bytes: int = _artifacts(
        512 * _MIB, "Maximum size of an artifact; a larger file is left out.", minimum=0
    )
    artifact_run_max_count: int = _artifacts(
        2000,
        "Maximum number of artifacts of a run; further files are left out. 0: no files are stored.",
        minimum=0,
        maximum=10_000,
    )
    artifact_run_max_bytes: int = _artifacts(
        2048 * _MIB, "Maximum size of all artifacts of a run; further files are left out.", minimum=0
    )
    artifact_tenant_max_bytes: int = _artifacts(
        10 * 1024 * _MIB,
        "Maximum size of the artifacts of all stored runs of a tenant, and of all runs without one; further "
        "files are left out. Gateways count every PYOCO_SWEEP_INTERVAL_SEC. 0: no limit.",
        minimum=0,
    )
    artifact_keep_files: bool = _artifacts(
        False,
        "Whether workers keep the files of a run on their disk, in PYOCO_RUN_DIR, after they were stored.",
    )
    artifact_usage_kv_bucket: str = _artifacts(
        "pyoco_artifact_usage", "The bucket of the sizes that gateways count for this.", form=NAME
    )
    run_log_stream: str = _run_logs("PYOCO_LOGS", "The stream of run output.", form=NAME)
    run_log_subject_prefix: str = _run_logs(
        "pyoco.logs", "Output of a run is stored under this prefix, a dot, and its id.", form=SUBJECT
    )
    run_log_max_age_sec: int = _run_logs(604800, "How long run output is kept.", minimum=1)
    run_log_max_bytes: int = _run_logs(
        512 * _MIB, "Maximum size of all run logs; the oldest lines are removed first.", minimum=1
    )
    run_log_line_max_bytes: int = _run_logs(
        16384, "Maximum length of a line; longer ones are cut.", minimum=64, maximum=262144
    )
    run_log_run_max_bytes: int = _run_logs(
        10 * _MIB, "Maximum output of one attempt of a run; the rest is counted and dropped.", minimum=1024
    )

    index_dir: str = _gateway(
        ".pyoco/index", "Folder of the run index of a gateway. It can be deleted: it is rebuilt."
    )

    http_trusted_proxies: str = _http(
        "",
        "Addresses or networks of the proxies in front of the gateway, such as 10.0.0.0/8,::1: the client is "
        "then the right-most address of X-Forwarded-For that is not one of them, for rate limits and audits.",
        form=NETWORKS,
        comma_separated=True,
    )
    http_allowed_hosts: str = _http(
        "",
        "Host names that the gateway accepts, besides IP addresses, localhost and the machine's own name: "
        "gateway.example.com, *.example.com for all below it, or * for any. Applies only without API keys.",
        form=HOSTS,
        comma_separated=True,
    )
    http_rate_limit: float = _http(
        0.0,
        "Requests per second of one API key, or without keys of one address, on average; "
        "more are rejected with 429. 0: no limit.",
        minimum=0,
    )
    http_rate_limit_burst: int = _http(100, "Requests allowed at once after a pause.", minimum=1)
    http_tls_cert_file: str = _http(
        "", "The certificate chain (PEM) of the gateway, which then accepts HTTPS only."
    )
    http_tls_key_file: str = _http("", "The key (PEM) of that certificate.")

    server: str = _client("http://127.0.0.1:8000", "The gateway that `pyoco-client` uses.", form=HTTP_URL)
    api_key: str = _client("", "The API key that `pyoco-client` sends.", secret=True)

    http_auth_mode: str = _auth("none", "Whether an API key is required.", choices=("none", "api_key"))
    http_api_key_header: str = _auth("X-API-Key", "The HTTP header that carries the API key.", form=HEADER)
    http_operator_tenant: str = _auth(
        "",
        "The tenant whose keys see the runs of all tenants, and runs without a tenant; empty: none.",
        form=TAG,
    )
    auth_kv_bucket: str = _auth("pyoco_auth", "The bucket of API keys.", form=NAME)
    auth_pepper: str = _auth("", "A secret mixed into the stored hash of every API key.", secret=True)

    worker_concurrency: int = _worker(1, "Number of runs that a worker executes at once.", minimum=1)
    executor_reuse: str = _worker(
        "tenant",
        "Which runs an executor process executes one after the other: those of one tenant, those of all "
        "tenants (`always`), or only one run (`never`).",
        choices=("tenant", "always", "never"),
    )
    executor_crash_retries: int = _worker(
        0,
        "How often an attempt of a run is continued from its journal in a new executor process, after its "
        "process was killed or has crashed. 0: the run is FAILED.",
        minimum=0,
    )
    run_dir: str = _worker(".pyoco/runs", "Folder of the working directories of runs.")
    callable_allow: str = _worker(
        "",
        "Patterns of modules that `callable:` in a flow.yaml may import. "
        "Not set: everything except the standard library, pyoco_server and what is installed with it.",
        comma_separated=True,
    )
    drain_timeout_sec: float = _worker(
        30.0, "How long a stopping worker waits for its current runs.", minimum=0
    )
    task_retry_base_sec: float = _worker(
        0.5,
        "Maximum delay before the first retry of a task; it doubles with each retry, with jitter.",
        minimum=0,
    )
    task_retry_max_sec: float = _worker(60.0, "Maximum delay before any retry.", minimum=0)
    cancel_grace_period_sec: float = _worker(
        30.0, "How long a cancelled run may take to stop before it is terminated.", minimum=0
    )

    run_heartbeat_interval_sec: float = _heartbeats(1.0, "Heartbeat interval of a run.", above=0)
    worker_heartbeat_interval_sec: float = _heartbeats(5.0, "Heartbeat interval of a worker.", above=0)
    worker_disconnect_timeout_sec: float = _heartbeats(
        20.0,
        "A worker that was silent for this long is shown as DISCONNECTED. "
        "Larger than PYOCO_WORKER_HEARTBEAT_INTERVAL_SEC.",
        above=0,
    )
    # The takeover time: when another worker continues the runs of a dead one.
    worker_lost_after_sec: float = _heartbeats(
        1.5,
        "A worker whose connection to NATS was closed for this long, because its process died, is shown as "
        "DISCONNECTED, and its runs are handed over to other workers. 0 leaves them to "
        "PYOCO_CONSUMER_ACK_WAIT_SEC.",
        minimum=0,
    )
    worker_record_retention_sec: float = _heartbeats(
        604800.0,
        "The record of a worker that stopped or was silent for this long is removed, unless it is hidden or "
        "paused. 0 keeps every record.",
        minimum=0,
    )
    workers_kv_ttl_sec: float = _heartbeats(
        15.0,
        "Accepted for compatibility, without effect: worker records must outlive the disconnect timeout.",
        above=0,
    )

    # The takeover time where NATS does not know that a worker is gone: a power failure, a network partition.
    consumer_ack_wait_sec: float = _queue(
        30.0,
        "A job that is not acknowledged for this long is delivered again.",
        minimum=MIN_ACK_WAIT_SEC,
    )
    ack_progress_interval_sec: float = _queue(
        10.0,
        "How often a worker extends the delivery of a running run. Less than PYOCO_CONSUMER_ACK_WAIT_SEC.",
        above=0,
    )
    consumer_max_deliver: int = _queue(20, "Maximum number of deliveries of a job.", minimum=1)
    consumer_max_ack_pending: int = _queue(
        200, "Maximum number of jobs of one tag in progress, over all workers.", minimum=1
    )

    sweep_interval_sec: float = _sweep(
        5.0, "Interval of the sweep, which ends or requeues orphaned runs.", above=0, maximum=60
    )
    lease_kv_bucket: str = _sweep("pyoco_leases", "The bucket of the lease of the sweep.", form=NAME)
    advisory_stream: str = _sweep(
        "PYOCO_ADVISORIES", "The stream of advisories about jobs whose deliveries are used up.", form=NAME
    )

    dlq_stream: str = _dead_letters("PYOCO_DLQ", "The stream of dead letters.", form=NAME)
    dlq_subject_prefix: str = _dead_letters(
        "pyoco.dlq", "A dead letter is published to this prefix, a dot, and its tag.", form=SUBJECT
    )
    dlq_publish_execution_error: bool = _dead_letters(
        True, "Whether a run that failed in the code of its flow leaves a dead letter."
    )
    dlq_max_age_sec: int = _dead_letters(604800, "How long a dead letter is kept.", minimum=1)
    dlq_max_msgs: int = _dead_letters(100000, "Maximum number of dead letters.", minimum=1)
    dlq_max_bytes: int = _dead_letters(512 * _MIB, "Maximum size of all dead letters.", minimum=1)

    bulk_kv_bucket: str = _bulk_operations(
        "pyoco_bulk", "The bucket of bulk operations and their progress.", form=NAME
    )
    bulk_ttl_sec: int = _bulk_operations(
        604800, "How long the record of a bulk operation is kept.", minimum=3600
    )

    wheel_object_store_bucket: str = _wheels("pyoco_wheels", "The object store of wheels.", form=NAME)
    wheel_max_bytes: int = _wheels(512 * _MIB, "Maximum size of a wheel.", minimum=1)
    wheel_sync_enabled: bool = _wheels(False, "Whether workers install the registered wheels.")
    wheel_sync_dir: str = _wheels(".pyoco/wheels", "Folder where workers install wheels.")
    wheel_sync_interval_sec: float = _wheels(10.0, "How often a worker checks the wheel registry.", above=0)
    wheel_install_timeout_sec: float = _wheels(180.0, "Timeout of one installation.", above=0)
    wheel_history_kv_bucket: str = _wheels(
        "pyoco_wheel_history", "The bucket of wheel uploads and deletions.", form=NAME
    )
    wheel_history_ttl_sec: int = _wheels(7776000, "How long that history is kept.", minimum=1)

    dashboard_lang: str = _dashboard(
        "auto", "The language of the dashboard; auto: that of the browser.", choices=("auto", "ja", "en")
    )

    log_level: str = _logging(
        "INFO", "The lowest level that is logged.", choices=("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
    )
    log_format: str = _logging(
        "json", "JSON Lines or text; not set on a terminal: text.", choices=("json", "text")
    )
    log_utc: bool = _logging(True, "Whether log times are in UTC; otherwise in local time.")
    log_include_traceback: bool = _logging(True, "Whether a logged error includes its traceback.")

    otel_enabled: bool = _tracing(
        False, "Whether runs are traced with OpenTelemetry, which is configured by its OTEL_* variables."
    )

    load_dotenv: bool = _env_file(True, "Whether the environment file is read.")
    env_file: str = _env_file(
        ".env", "A file of settings. The environment takes precedence; a file named here must exist."
    )

    hide_process: bool = _processes(
        True,
        "Whether other processes of the same user, such as tasks, are kept from reading the memory and the "
        "environment of a gateway or a worker (Linux). Off: for debuggers and core dumps.",
    )

    def __post_init__(self) -> None:
        problems = [row.problem(value) for row, value in self._rows() if not row.accepts(value)]
        # Invalid values cannot be compared.
        problems = problems or list(conflicts(self._rows()))
        if problems:
            raise ConfigError(problems=problems)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> NatsBackendConfig:
        """The settings of the environment and its file; one ConfigError reports all invalid ones."""
        real = os.environ if environ is None else environ
        from_file, problems = _read_env_file(real)
        given = {**from_file, **real}
        _warn_about_unknown(given)
        values: dict[str, Any] = {}
        for row in SETTINGS:
            text = given.get(row.name, "")
            if not text:  # `PYOCO_X=` in a compose file means "not set"
                continue
            try:
                values[row.field] = row.parse(text)
            except ValueError:
                problems.append(row.problem(text))
        try:
            config = cls(**values)
        except ConfigError as error:
            problems.extend(error.problems)
        if problems:
            raise ConfigError(problems=problems)
        return config

    @property
    def nats_servers(self) -> list[str]:
        """The single URLs in `nats_url`."""
        return split_urls(self.nats_url)

    def _rows(self) -> Iterator[tuple[Setting, Any]]:
        for row in SETTINGS:
            yield row, getattr(self, row.field)

    def __repr__(self) -> str:
        shown = ", ".join(f"{row.field}={row.shown(value)}" for row, value in self._rows())
        return f"{type(self).__name__}({shown})"


SETTINGS: Final[tuple[Setting, ...]] = tuple(setting_of(declared) for declared in fields(NatsBackendConfig))

_BY_FIELD: Final = {row.field: row for row in SETTINGS}

# Other AX_ variables belong to other products.
_OUR_PREFIXES: Final = (ENV_PREFIX, f"{CONTRACT_PREFIX}WORKFLOW_EVENT_")
# Variables of the engine and its plug-ins.
_ENGINE_VARIABLES: Final = frozenset(
    ENV_PREFIX + name
    for name in (
        "CUTE",
        "DISCOVERY_MODULES",
        "MAX_LOG_BYTES",
        "MAX_RUN_HISTORY",
        "RUN_ARCHIVE_DIR",
        "WEBHOOK_RETRIES",
        "WEBHOOK_SECRET",
        "WEBHOOK_TIMEOUT",
        "WEBHOOK_URL",
    )
)


def _read_env_file(real: Mapping[str, str]) -> tuple[dict[str, str], list[FieldProblem]]:
    """The settings of the environment file, which only the real environment can name."""
    load, named = _BY_FIELD["load_dotenv"], _BY_FIELD["env_file"]
    try:
        enabled = load.parse(real.get(load.name) or load.shown_default)
    except ValueError:
        return {}, []  # reported with all the other settings
    given = real.get(named.name)
    path = Path(given or str(named.default))
    if not enabled or (not given and not path.exists()):
        return {}, []
    try:
        # Opened here: the library treats a missing file as an empty one.
        # "utf-8-sig": a byte order mark would otherwise become part of the first name.
        with path.open(encoding="utf-8-sig") as lines:
            content = dotenv_values(stream=lines)
    except (OSError, UnicodeDecodeError) as error:
        return {}, [FieldProblem(named.name, f"expected a readable file ({error})", named.shown(str(path)))]
    ours = {row.name for row in SETTINGS}
    return {
        name: text or "" for name, text in content.items() if name.startswith(ENV_PREFIX) or name in ours
    }, []


def _warn_about_unknown(given: Mapping[str, str]) -> None:
    """Log each unknown variable of ours, with the most similar setting."""
    known = {*(row.name for row in SETTINGS), *_ENGINE_VARIABLES}
    for name in sorted(given):
        if name.startswith(_OUR_PREFIXES) and name not in known:
            # Compared without the prefix, which would make everything look alike.
            plain = name.removeprefix(ENV_PREFIX).removeprefix(CONTRACT_PREFIX).lower()
            nearest = difflib.get_close_matches(plain, _BY_FIELD, n=1)
            hint = f"; did you mean {_BY_FIELD[nearest[0]].name}?" if nearest else ""
            _log.warning("%s is not a setting of this product and has no effect%s", name, hint)
