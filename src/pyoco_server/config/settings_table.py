"""All settings with their defaults, bounds and one-line helps. The field `nats_url` is PYOCO_NATS_URL."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from pyoco_server.config.setting import (
    HEADER,
    HOSTS,
    HTTP_URL,
    NAME,
    NATS_URLS,
    SUBJECT,
    TAG,
    Setting,
    safe_url,
    setting,
    setting_of,
    split_urls,
)
from pyoco_server.config.setting_conflicts import conflicts
from pyoco_server.config.setting_environment import read_env_file, warn_about_unknown
from pyoco_server.errors import ConfigError

__all__ = ["SETTINGS", "NatsBackendConfig", "Setting", "safe_url"]

_MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class NatsBackendConfig:
    """The settings of a gateway, a worker or a client, validated on creation."""

    nats_url: str = setting(
        "NATS",
        "nats://127.0.0.1:4222",
        "The NATS server; several servers of one cluster are separated by commas.",
        form=NATS_URLS,
    )
    nats_replicas: int = setting(
        "NATS", 1, "Number of copies of every stream and bucket that is created.", minimum=1, maximum=5
    )
    nats_request_timeout_sec: float = setting(
        "NATS",
        1.5,
        "Timeout of one request to NATS. While NATS hangs, every answer of a gateway takes this long.",
        above=0,
        maximum=600.0,
    )
    nats_data_dir: str = setting("NATS", ".pyoco/nats", "Data folder of the embedded NATS server.")
    nats_user: str = setting(
        "NATS", "", "NATS user, with PYOCO_NATS_PASSWORD. Not together with a user in PYOCO_NATS_URL."
    )
    nats_password: str = setting("NATS", "", "The password of PYOCO_NATS_USER.", secret=True)
    nats_nkey_seed_file: str = setting(
        "NATS", "", "A file with the nkey seed (SU...) of the NATS user. Needs pyoco-server[nkeys]."
    )
    nats_creds_file: str = setting(
        "NATS", "", "A .creds file (JWT and seed) of the NATS user. Needs pyoco-server[nkeys]."
    )
    nats_tls_ca_file: str = setting(
        "NATS",
        "",
        "The certificates (PEM) of the authorities whose NATS servers are trusted; not set: those of the "
        "system. When set, a server without TLS is rejected, as with tls:// in PYOCO_NATS_URL.",
    )
    nats_tls_cert_file: str = setting(
        "NATS", "", "The client certificate (PEM) for NATS. When set, TLS is required, as above."
    )
    nats_tls_key_file: str = setting("NATS", "", "The key (PEM) of that certificate.")
    work_stream: str = setting("NATS", "PYOCO_WORK", "The stream of queued jobs.", form=NAME)
    work_subject_prefix: str = setting(
        "NATS", "pyoco.work", "A job is published to this prefix, a dot, and its tag.", form=SUBJECT
    )
    runs_kv_bucket: str = setting("NATS", "pyoco_runs", "The bucket of run snapshots.", form=NAME)
    workers_kv_bucket: str = setting("NATS", "pyoco_workers", "The bucket of worker records.", form=NAME)

    default_tag: str = setting("Runs", "default", "The tag of a run without one.", form=TAG)
    max_run_snapshot_bytes: int = setting(
        "Runs", 262144, "Maximum size of a run snapshot; task records are truncated to fit.", minimum=1024
    )
    workflow_yaml_max_bytes: int = setting(
        "Runs", 262144, "Maximum size of a flow.yaml; a larger one is rejected with 413.", minimum=1
    )
    run_retention_sec: float = setting(
        "Runs",
        0.0,
        "Delete a run this long after its end, with its journal and its log. 0 keeps every run.",
        minimum=0,
    )
    journal_stream: str = setting(
        "Runs", "PYOCO_JOURNAL", "The stream of results of finished tasks, for resuming runs.", form=NAME
    )
    journal_subject_prefix: str = setting(
        "Runs",
        "pyoco.journal",
        "A finished task is journalled under this prefix, a dot, and its run.",
        form=SUBJECT,
    )
    journal_value_max_bytes: int = setting(
        "Runs",
        64 * _MIB,
        "A larger result is not journalled; its task is executed again when the run is resumed.",
        minimum=1,
    )
    idempotency_kv_bucket: str = setting(
        "Runs", "pyoco_idempotency", "The bucket of idempotency keys.", form=NAME
    )
    idempotency_ttl_sec: int = setting("Runs", 86400, "How long an Idempotency-Key is kept.", minimum=60)
    waits_kv_bucket: str = setting("Waits for people", "pyoco_waits", "The bucket of waits.", form=NAME)
    wait_event_stream: str = setting(
        "Waits for people",
        "PYOCO_WAIT_EVENTS",
        "The stream of wait events: answers and rejected answers.",
        form=NAME,
    )
    wait_event_subject_prefix: str = setting(
        "Waits for people",
        "pyoco.wait_events",
        "A wait event is published to this prefix, the wait id, and the kind of event.",
        form=SUBJECT,
    )
    wait_event_max_age_sec: int = setting(
        "Waits for people", 31_536_000, "How long wait events are kept; 0: forever.", minimum=0
    )
    wait_timeout_sec: float = setting(
        "Waits for people",
        86400.0,
        "Default timeout of a wait.",
        above=0,
        maximum=31_622_400,
    )
    wait_answer_max_bytes: int = setting(
        "Waits for people",
        256 * 1024,
        "Maximum size of the body of an answer, in bytes.",
        minimum=1024,
        maximum=16 * _MIB,
    )
    public_url: str = setting(
        "Waits for people",
        "",
        "Public URL of the gateway (https://host[:port]), used for links in notifications.",
        form=HTTP_URL,
    )
    notify_url: str = setting(
        "Waits for people",
        "",
        "URL to POST to when a wait is opened, answered or has expired; not set: no notifications.",
        form=HTTP_URL,
    )
    notify_secret: str = setting(
        "Waits for people", "", "Key for signing notifications (HMAC-SHA256).", secret=True
    )
    notify_timeout_sec: float = setting(
        "Waits for people", 10.0, "Timeout of a notification request.", above=0, maximum=60.0
    )
    notify_max_age_sec: int = setting(
        "Waits for people",
        86400,
        "How long a notification is retried before it is dropped.",
        minimum=60,
    )
    run_log_stream: str = setting("Run logs", "PYOCO_LOGS", "The stream of run output.", form=NAME)
    run_log_subject_prefix: str = setting(
        "Run logs",
        "pyoco.logs",
        "Output of a run is stored under this prefix, a dot, and its id.",
        form=SUBJECT,
    )
    run_log_max_age_sec: int = setting("Run logs", 604800, "How long run output is kept.", minimum=1)
    run_log_max_bytes: int = setting(
        "Run logs",
        512 * _MIB,
        "Maximum size of all run logs; the oldest lines are removed first.",
        minimum=1,
    )
    run_log_line_max_bytes: int = setting(
        "Run logs",
        16384,
        "Maximum length of a line; longer ones are cut.",
        minimum=64,
        maximum=262144,
    )
    run_log_run_max_bytes: int = setting(
        "Run logs",
        10 * _MIB,
        "Maximum output of one attempt of a run; the rest is counted and dropped.",
        minimum=1024,
    )

    index_dir: str = setting(
        "Gateway",
        ".pyoco/index",
        "Folder of the run index of a gateway. It can be deleted: it is rebuilt.",
    )

    http_allowed_hosts: str = setting(
        "HTTP",
        "",
        "Host names that the gateway accepts, besides IP addresses, localhost and the machine's own name: "
        "gateway.example.com, *.example.com for all below it, or * for any. Applies only without API keys.",
        form=HOSTS,
        comma_separated=True,
    )
    http_rate_limit: float = setting(
        "HTTP",
        0.0,
        "Requests per second of one API key, or without keys of one address, on average; "
        "more are rejected with 429. 0: no limit.",
        minimum=0,
    )
    http_rate_limit_burst: int = setting("HTTP", 100, "Requests allowed at once after a pause.", minimum=1)
    http_tls_cert_file: str = setting(
        "HTTP", "", "The certificate chain (PEM) of the gateway, which then accepts HTTPS only."
    )
    http_tls_key_file: str = setting("HTTP", "", "The key (PEM) of that certificate.")

    server: str = setting(
        "Client", "http://127.0.0.1:8000", "The gateway that `pyoco-client` uses.", form=HTTP_URL
    )
    api_key: str = setting("Client", "", "The API key that `pyoco-client` sends.", secret=True)

    http_auth_mode: str = setting(
        "HTTP authentication",
        "none",
        "Whether an API key is required.",
        choices=("none", "api_key"),
    )
    http_api_key_header: str = setting(
        "HTTP authentication", "X-API-Key", "The HTTP header that carries the API key.", form=HEADER
    )
    http_operator_tenant: str = setting(
        "HTTP authentication",
        "",
        "The tenant whose keys see the runs of all tenants, and runs without a tenant; empty: none.",
        form=TAG,
    )
    auth_kv_bucket: str = setting("HTTP authentication", "pyoco_auth", "The bucket of API keys.", form=NAME)
    auth_pepper: str = setting(
        "HTTP authentication", "", "A secret mixed into the stored hash of every API key.", secret=True
    )

    worker_concurrency: int = setting(
        "Worker", 1, "Number of runs that a worker executes at once.", minimum=1
    )
    run_dir: str = setting("Worker", ".pyoco/runs", "Folder of the working directories of runs.")
    callable_allow: str = setting(
        "Worker",
        "",
        "Patterns of modules that `callable:` in a flow.yaml may import. "
        "Not set: everything except the standard library, pyoco_server and what is installed with it.",
        comma_separated=True,
    )
    drain_timeout_sec: float = setting(
        "Worker", 30.0, "How long a stopping worker waits for its current runs.", minimum=0
    )
    task_retry_base_sec: float = setting(
        "Worker",
        0.5,
        "Maximum delay before the first retry of a task; it doubles with each retry, with jitter.",
        minimum=0,
    )
    task_retry_max_sec: float = setting("Worker", 60.0, "Maximum delay before any retry.", minimum=0)
    cancel_grace_period_sec: float = setting(
        "Worker", 30.0, "How long a cancelled run may take to stop before it is terminated.", minimum=0
    )

    run_heartbeat_interval_sec: float = setting("Heartbeats", 1.0, "Heartbeat interval of a run.", above=0)
    worker_heartbeat_interval_sec: float = setting(
        "Heartbeats", 5.0, "Heartbeat interval of a worker.", above=0
    )
    worker_disconnect_timeout_sec: float = setting(
        "Heartbeats",
        20.0,
        "A worker that was silent for this long is shown as DISCONNECTED. "
        "Larger than PYOCO_WORKER_HEARTBEAT_INTERVAL_SEC.",
        above=0,
    )
    worker_record_retention_sec: float = setting(
        "Heartbeats",
        604800.0,
        "The record of a worker that stopped or was silent for this long is removed, unless it is hidden or "
        "paused. 0 keeps every record.",
        minimum=0,
    )
    workers_kv_ttl_sec: float = setting(
        "Heartbeats",
        15.0,
        "Accepted for compatibility, without effect: worker records must outlive the disconnect timeout.",
        above=0,
    )

    consumer_ack_wait_sec: float = setting(
        "Queue", 30.0, "A job that is not acknowledged for this long is delivered again.", minimum=1
    )
    ack_progress_interval_sec: float = setting(
        "Queue",
        10.0,
        "How often a worker extends the delivery of a running run. Less than PYOCO_CONSUMER_ACK_WAIT_SEC.",
        above=0,
    )
    consumer_max_deliver: int = setting("Queue", 20, "Maximum number of deliveries of a job.", minimum=1)
    consumer_max_ack_pending: int = setting(
        "Queue", 200, "Maximum number of jobs of one tag in progress, over all workers.", minimum=1
    )

    sweep_interval_sec: float = setting(
        "Sweep",
        5.0,
        "Interval of the sweep, which ends or requeues orphaned runs.",
        above=0,
        maximum=60,
    )
    lease_kv_bucket: str = setting(
        "Sweep", "pyoco_leases", "The bucket of the lease of the sweep.", form=NAME
    )
    advisory_stream: str = setting(
        "Sweep",
        "PYOCO_ADVISORIES",
        "The stream of advisories about jobs whose deliveries are used up.",
        form=NAME,
    )

    dlq_stream: str = setting("Dead letters", "PYOCO_DLQ", "The stream of dead letters.", form=NAME)
    dlq_subject_prefix: str = setting(
        "Dead letters",
        "pyoco.dlq",
        "A dead letter is published to this prefix, a dot, and its tag.",
        form=SUBJECT,
    )
    dlq_publish_execution_error: bool = setting(
        "Dead letters", True, "Whether a run that failed in the code of its flow leaves a dead letter."
    )
    dlq_max_age_sec: int = setting("Dead letters", 604800, "How long a dead letter is kept.", minimum=1)
    dlq_max_msgs: int = setting("Dead letters", 100000, "Maximum number of dead letters.", minimum=1)
    dlq_max_bytes: int = setting("Dead letters", 512 * _MIB, "Maximum size of all dead letters.", minimum=1)

    bulk_kv_bucket: str = setting(
        "Bulk operations", "pyoco_bulk", "The bucket of bulk operations and their progress.", form=NAME
    )
    bulk_ttl_sec: int = setting(
        "Bulk operations", 604800, "How long the record of a bulk operation is kept.", minimum=3600
    )

    wheel_object_store_bucket: str = setting(
        "Wheels", "pyoco_wheels", "The object store of wheels.", form=NAME
    )
    wheel_max_bytes: int = setting("Wheels", 512 * _MIB, "Maximum size of a wheel.", minimum=1)
    wheel_sync_enabled: bool = setting("Wheels", False, "Whether workers install the registered wheels.")
    wheel_sync_dir: str = setting("Wheels", ".pyoco/wheels", "Folder where workers install wheels.")
    wheel_sync_interval_sec: float = setting(
        "Wheels", 10.0, "How often a worker checks the wheel registry.", above=0
    )
    wheel_install_timeout_sec: float = setting("Wheels", 180.0, "Timeout of one installation.", above=0)
    wheel_history_kv_bucket: str = setting(
        "Wheels", "pyoco_wheel_history", "The bucket of wheel uploads and deletions.", form=NAME
    )
    wheel_history_ttl_sec: int = setting("Wheels", 7776000, "How long that history is kept.", minimum=1)

    dashboard_lang: str = setting(
        "Dashboard",
        "auto",
        "The language of the dashboard; auto: that of the server.",
        choices=("auto", "ja", "en"),
    )

    log_level: str = setting(
        "Logging",
        "INFO",
        "The lowest level that is logged.",
        choices=("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"),
    )
    log_format: str = setting(
        "Logging",
        "json",
        "JSON Lines or text; not set on a terminal: text.",
        choices=("json", "text"),
    )
    log_utc: bool = setting("Logging", True, "Whether log times are in UTC; otherwise in local time.")
    log_include_traceback: bool = setting("Logging", True, "Whether a logged error includes its traceback.")

    otel_enabled: bool = setting(
        "Tracing",
        False,
        "Whether runs are traced with OpenTelemetry, which is configured by its OTEL_* variables.",
    )

    load_dotenv: bool = setting("Environment file", True, "Whether the environment file is read.")
    env_file: str = setting(
        "Environment file",
        ".env",
        "A file of settings. The environment takes precedence; a file named here must exist.",
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
        from_file, problems = read_env_file(real, load=_BY_FIELD["load_dotenv"], named=_BY_FIELD["env_file"])
        given = {**from_file, **real}
        warn_about_unknown(given, SETTINGS)
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
