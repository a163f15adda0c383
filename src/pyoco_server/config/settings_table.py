"""Every setting of the product, once: its name, default, bounds and one line of help.

A field `nats_url` is the environment variable `PYOCO_NATS_URL`; nothing else has to be kept in step with it.
"""

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
    """The settings of a gateway, a worker or a client. Made by hand or by `from_env()`, always checked."""

    nats_url: str = setting(
        "NATS",
        "nats://127.0.0.1:4222",
        "Where NATS is; several servers of one cluster are separated by commas.",
        form=NATS_URLS,
    )
    nats_replicas: int = setting(
        "NATS", 1, "Copies kept of every stream and bucket this product creates.", minimum=1, maximum=5
    )
    nats_request_timeout_sec: float = setting(
        "NATS", 1.5, "How long one request to NATS may take before it counts as failed.", above=0, maximum=2.0
    )
    nats_data_dir: str = setting(
        "NATS", ".pyoco/nats", "Where the embedded NATS server keeps its data; it survives a restart."
    )
    nats_user: str = setting(
        "NATS", "", "The user of NATS to be, with PYOCO_NATS_PASSWORD. Not beside a user in PYOCO_NATS_URL."
    )
    nats_password: str = setting("NATS", "", "The password of PYOCO_NATS_USER.", secret=True)
    nats_nkey_seed_file: str = setting(
        "NATS", "", "A file with the nkey seed (SU...) of the user of NATS to be. Needs pyoco-server[nkeys]."
    )
    nats_creds_file: str = setting(
        "NATS", "", "A .creds file (JWT and seed) of the user of NATS to be. Needs pyoco-server[nkeys]."
    )
    nats_tls_ca_file: str = setting(
        "NATS",
        "",
        "The certificates (PEM) of the authorities whose NATS servers are trusted; not set: those of the "
        "system. When set, a server without TLS is refused, as with tls:// in PYOCO_NATS_URL.",
    )
    nats_tls_cert_file: str = setting(
        "NATS", "", "The client certificate (PEM) to show to NATS. When set, TLS is required, as above."
    )
    nats_tls_key_file: str = setting("NATS", "", "The key (PEM) of that certificate.")
    work_stream: str = setting("NATS", "PYOCO_WORK", "The stream that holds the queued jobs.", form=NAME)
    work_subject_prefix: str = setting(
        "NATS", "pyoco.work", "A job is published to this prefix, a dot, and its tag.", form=SUBJECT
    )
    runs_kv_bucket: str = setting("NATS", "pyoco_runs", "The bucket of run snapshots.", form=NAME)
    workers_kv_bucket: str = setting("NATS", "pyoco_workers", "The bucket of worker records.", form=NAME)

    default_tag: str = setting("Runs", "default", "The tag of a run that names none.", form=TAG)
    max_run_snapshot_bytes: int = setting(
        "Runs", 262144, "Task records are cut until a run's snapshot is not larger than this.", minimum=1024
    )
    workflow_yaml_max_bytes: int = setting(
        "Runs", 262144, "The largest flow.yaml that is taken; a larger one is refused with 413.", minimum=1
    )
    run_retention_sec: float = setting(
        "Runs",
        0.0,
        "A run that ended this long ago is removed, with its journal and its log. 0 keeps every run.",
        minimum=0,
    )
    journal_stream: str = setting(
        "Runs", "PYOCO_JOURNAL", "The stream of what finished tasks returned, for resuming a run.", form=NAME
    )
    journal_subject_prefix: str = setting(
        "Runs",
        "pyoco.journal",
        "A finished task is recorded under this prefix, a dot, and its run.",
        form=SUBJECT,
    )
    journal_value_max_bytes: int = setting(
        "Runs",
        64 * _MIB,
        "A task whose result is larger is not recorded, and executed again when its run is resumed.",
        minimum=1,
    )
    idempotency_kv_bucket: str = setting(
        "Runs", "pyoco_idempotency", "The bucket of the idempotency keys that runs came with.", form=NAME
    )
    idempotency_ttl_sec: int = setting(
        "Runs", 86400, "How long an Idempotency-Key stands for what it first came with.", minimum=60
    )
    waits_kv_bucket: str = setting(
        "Waits for people", "pyoco_waits", "The bucket of the waits for people.", form=NAME
    )
    wait_event_stream: str = setting(
        "Waits for people",
        "PYOCO_WAIT_EVENTS",
        "The stream of what happened to waits: who answered, who was refused.",
        form=NAME,
    )
    wait_event_subject_prefix: str = setting(
        "Waits for people",
        "pyoco.wait_events",
        "What happened to a wait is published to this prefix, the id of the wait, and a word for it.",
        form=SUBJECT,
    )
    wait_event_max_age_sec: int = setting(
        "Waits for people", 31_536_000, "How long it is kept what happened to waits; 0: for ever.", minimum=0
    )
    wait_timeout_sec: float = setting(
        "Waits for people",
        86400.0,
        "How long a wait lasts whose task does not say so.",
        above=0,
        maximum=31_622_400,
    )
    wait_answer_max_bytes: int = setting(
        "Waits for people",
        256 * 1024,
        "How large the body of an answer may be, in bytes.",
        minimum=1024,
        maximum=16 * _MIB,
    )
    public_url: str = setting(
        "Waits for people",
        "",
        "Where people reach the gateway (https://host[:port]): the links in notifications begin with it.",
        form=HTTP_URL,
    )
    notify_url: str = setting(
        "Waits for people",
        "",
        "Where to POST that a wait was opened, answered or has expired; not set: nowhere.",
        form=HTTP_URL,
    )
    notify_secret: str = setting(
        "Waits for people", "", "The key that notifications are signed with (HMAC-SHA256).", secret=True
    )
    notify_timeout_sec: float = setting(
        "Waits for people", 10.0, "How long the receiver of a notification may take.", above=0, maximum=60.0
    )
    notify_max_age_sec: int = setting(
        "Waits for people",
        86400,
        "How long a notification is tried again before it is given up.",
        minimum=60,
    )
    run_log_stream: str = setting("Run logs", "PYOCO_LOGS", "The stream of what runs print.", form=NAME)
    run_log_subject_prefix: str = setting(
        "Run logs",
        "pyoco.logs",
        "What a run prints is kept under this prefix, a dot, and its id.",
        form=SUBJECT,
    )
    run_log_max_age_sec: int = setting("Run logs", 604800, "How long a printed line is kept.", minimum=1)
    run_log_max_bytes: int = setting(
        "Run logs", 512 * _MIB, "How large the logs of all runs may get; the oldest go first.", minimum=1
    )
    run_log_line_max_bytes: int = setting(
        "Run logs", 16384, "A longer line is cut, and says so.", minimum=64, maximum=262144
    )
    run_log_run_max_bytes: int = setting(
        "Run logs",
        10 * _MIB,
        "What one attempt of a run may print; the rest is counted and dropped.",
        minimum=1024,
    )

    index_dir: str = setting(
        "Gateway",
        ".pyoco/index",
        "Where a gateway keeps its index of runs. It can be deleted: it is made anew from the runs.",
    )

    http_allowed_hosts: str = setting(
        "HTTP",
        "",
        "Names by which the gateway may be called beside IP addresses, localhost and the machine's own name: "
        "gateway.example.com, *.example.com for all below it, or * for any. Only looked at without API keys.",
        form=HOSTS,
        comma_separated=True,
    )
    http_rate_limit: float = setting(
        "HTTP",
        0.0,
        "How many requests a second one API key, or without keys one address, may make on average; more are "
        "refused with 429. 0: no limit.",
        minimum=0,
    )
    http_rate_limit_burst: int = setting(
        "HTTP", 100, "How many of them it may make at once after a pause.", minimum=1
    )
    http_tls_cert_file: str = setting(
        "HTTP", "", "The certificate chain (PEM) of the gateway, which then speaks HTTPS only."
    )
    http_tls_key_file: str = setting("HTTP", "", "The key (PEM) of that certificate.")

    server: str = setting(
        "Client", "http://127.0.0.1:8000", "The gateway that `pyoco-client` talks to.", form=HTTP_URL
    )
    api_key: str = setting("Client", "", "The API key that `pyoco-client` sends.", secret=True)

    http_auth_mode: str = setting(
        "HTTP authentication",
        "none",
        "Whether callers need an API key.",
        choices=("none", "api_key"),
    )
    http_api_key_header: str = setting(
        "HTTP authentication", "X-API-Key", "The HTTP header that carries the API key.", form=HEADER
    )
    http_operator_tenant: str = setting(
        "HTTP authentication",
        "",
        "The tenant whose keys see every tenant's runs, and those made without a key; empty: none does.",
        form=TAG,
    )
    auth_kv_bucket: str = setting("HTTP authentication", "pyoco_auth", "The bucket of API keys.", form=NAME)
    auth_pepper: str = setting(
        "HTTP authentication", "", "A secret mixed into the stored hash of every API key.", secret=True
    )

    worker_concurrency: int = setting("Worker", 1, "How many runs one worker executes at once.", minimum=1)
    run_dir: str = setting(
        "Worker", ".pyoco/runs", "Each run gets a working directory of its own below this one."
    )
    callable_allow: str = setting(
        "Worker",
        "",
        "Patterns of the modules that `callable:` in a flow.yaml may name. "
        "Not set: everything except the standard library, pyoco_server and what is installed with it.",
        comma_separated=True,
    )
    drain_timeout_sec: float = setting(
        "Worker", 30.0, "How long a stopping worker waits for its running runs.", minimum=0
    )
    task_retry_base_sec: float = setting(
        "Worker",
        0.5,
        "The longest pause before the first retry of a task; it doubles with each, and is drawn at random.",
        minimum=0,
    )
    task_retry_max_sec: float = setting("Worker", 60.0, "The longest pause before any retry.", minimum=0)
    cancel_grace_period_sec: float = setting(
        "Worker", 30.0, "How long a cancelled run may take to stop before it is ended by force.", minimum=0
    )

    run_heartbeat_interval_sec: float = setting(
        "Heartbeats", 1.0, "How often a running run's snapshot says that it is alive.", above=0
    )
    worker_heartbeat_interval_sec: float = setting(
        "Heartbeats", 5.0, "How often a worker says that it is alive.", above=0
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
        "Accepted for compatibility, without effect: worker records must outlive the disconnect time-out.",
        above=0,
    )

    consumer_ack_wait_sec: float = setting(
        "Queue", 30.0, "A job that was not acknowledged for this long is delivered again.", minimum=1
    )
    ack_progress_interval_sec: float = setting(
        "Queue",
        10.0,
        "How often a worker tells the queue that a run goes on. Less than PYOCO_CONSUMER_ACK_WAIT_SEC.",
        above=0,
    )
    consumer_max_deliver: int = setting("Queue", 20, "How often one job is delivered at most.", minimum=1)
    consumer_max_ack_pending: int = setting(
        "Queue", 200, "How many jobs of one tag may be in work at once, over all workers.", minimum=1
    )

    sweep_interval_sec: float = setting(
        "Sweep",
        5.0,
        "How often one of the gateways looks for runs that nobody else will bring to an end.",
        above=0,
        maximum=60,
    )
    lease_kv_bucket: str = setting(
        "Sweep", "pyoco_leases", "The bucket that says which gateway does it.", form=NAME
    )
    advisory_stream: str = setting(
        "Sweep",
        "PYOCO_ADVISORIES",
        "The stream of the server's word that a job was delivered as often as it may be.",
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
        "Dead letters", True, "Whether a run that failed in its own code leaves a dead letter."
    )
    dlq_max_age_sec: int = setting("Dead letters", 604800, "How long a dead letter is kept.", minimum=1)
    dlq_max_msgs: int = setting("Dead letters", 100000, "How many dead letters are kept.", minimum=1)
    dlq_max_bytes: int = setting("Dead letters", 512 * _MIB, "How large the dead letters may get.", minimum=1)

    bulk_kv_bucket: str = setting(
        "Bulk operations", "pyoco_bulk", "The bucket of bulk operations and their progress.", form=NAME
    )
    bulk_ttl_sec: int = setting(
        "Bulk operations", 604800, "How long the record of a bulk operation is kept.", minimum=3600
    )

    wheel_object_store_bucket: str = setting(
        "Wheels", "pyoco_wheels", "The object store of wheels.", form=NAME
    )
    wheel_max_bytes: int = setting("Wheels", 512 * _MIB, "The largest wheel that is taken.", minimum=1)
    wheel_sync_enabled: bool = setting("Wheels", False, "Whether workers install the registered wheels.")
    wheel_sync_dir: str = setting(
        "Wheels", ".pyoco/wheels", "Where workers install wheels, each in a folder of its own."
    )
    wheel_sync_interval_sec: float = setting("Wheels", 10.0, "How often a worker looks for wheels.", above=0)
    wheel_install_timeout_sec: float = setting(
        "Wheels", 180.0, "How long one installation may take.", above=0
    )
    wheel_history_kv_bucket: str = setting(
        "Wheels", "pyoco_wheel_history", "The bucket of wheel uploads and deletions.", form=NAME
    )
    wheel_history_ttl_sec: int = setting("Wheels", 7776000, "How long that history is kept.", minimum=1)

    dashboard_lang: str = setting(
        "Dashboard",
        "auto",
        "The dashboard's language; auto follows the server.",
        choices=("auto", "ja", "en"),
    )

    log_level: str = setting(
        "Logging",
        "INFO",
        "The least serious level that is logged.",
        choices=("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"),
    )
    log_format: str = setting(
        "Logging",
        "json",
        "JSON Lines, or text for people; not set on a terminal: text.",
        choices=("json", "text"),
    )
    log_utc: bool = setting("Logging", True, "Whether log times are in UTC; otherwise in local time.")
    log_include_traceback: bool = setting("Logging", True, "Whether a logged error carries its traceback.")

    otel_enabled: bool = setting(
        "Tracing",
        False,
        "Whether runs are told to OpenTelemetry; where they are sent is said by its own OTEL_* variables.",
    )

    load_dotenv: bool = setting("Environment file", True, "Whether the environment file is read.")
    env_file: str = setting(
        "Environment file",
        ".env",
        "A file of settings. The real environment wins over it; it must exist when it is named here.",
    )

    def __post_init__(self) -> None:
        problems = [row.problem(value) for row, value in self._rows() if not row.accepts(value)]
        # A comparison of values that are wrong by themselves would only add noise, or fail.
        problems = problems or list(conflicts(self._rows()))
        if problems:
            raise ConfigError(problems=problems)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> NatsBackendConfig:
        """The settings of the environment and the environment file; every bad one in one ConfigError."""
        real = os.environ if environ is None else environ
        from_file, problems = read_env_file(real, load=_BY_FIELD["load_dotenv"], named=_BY_FIELD["env_file"])
        given = {**from_file, **real}
        warn_about_unknown(given, SETTINGS)
        values: dict[str, Any] = {}
        for row in SETTINGS:
            text = given.get(row.name, "")
            if not text:  # `PYOCO_X=` is how a compose file says "not set"
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
