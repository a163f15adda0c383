"""Every metric of `GET /metrics`, once: its name, kind, unit, labels and one line of help.

`make docs` writes docs/metrics.md from it. Gauges that end with `_total` are part of the contract.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class MetricKind(StrEnum):
    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Of(StrEnum):
    # The whole system: every gateway reports the same value, so they must not be added up.
    SYSTEM = "system"
    # One gateway, since its start.
    GATEWAY = "gateway"


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    kind: MetricKind
    of: Of
    unit: str
    help: str
    labels: tuple[str, ...] = ()
    # Upper bounds of a histogram.
    bounds: tuple[float, ...] = ()


def _gauge(name: str, unit: str, help_: str, *labels: str, of: Of = Of.SYSTEM) -> Metric:
    return Metric(name, MetricKind.GAUGE, of, unit, help_, labels)


def _counter(name: str, unit: str, help_: str, *labels: str, of: Of = Of.GATEWAY) -> Metric:
    return Metric(name, MetricKind.COUNTER, of, unit, help_, labels)


def _histogram(name: str, help_: str, label: str, bounds: tuple[float, ...], *, of: Of) -> Metric:
    return Metric(name, MetricKind.HISTOGRAM, of, "seconds", help_, (label,), bounds)


def max_gauge_name(name: str) -> str:
    """The gauge of the largest value of a histogram: quantiles that are interpolated can be limited by it."""
    return f"{name.removesuffix('_seconds')}_max_seconds"


def _max_gauge(histogram: str, label: str, *, of: Of) -> Metric:
    text = f"The largest value of {histogram} since this gateway started."
    return _gauge(max_gauge_name(histogram), "seconds", text, label, of=of)


# Each bound is a line per flow in every scrape.
_RUN_BOUNDS: Final = (0.005, 0.025, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600)
_REQUEST_BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)

METRICS: Final = (
    _gauge("pyoco_runs_total", "runs", "Stored runs, by status.", "status"),
    _gauge("pyoco_artifacts", "files", "Stored artifacts of all runs."),
    _gauge("pyoco_artifacts_bytes", "bytes", "Size of the stored artifacts."),
    _gauge(
        "pyoco_artifacts_left_out",
        "files",
        "Files of stored runs that are not stored: above a limit, not a regular file, or refused by NATS.",
    ),
    _counter(
        "pyoco_runs_ended_total",
        "runs",
        "Runs that ended while this gateway was running.",
        "flow",
        "status",
        of=Of.SYSTEM,
    ),
    _counter(
        "pyoco_redeliveries_total",
        "deliveries",
        "Redeliveries of the runs that ended while this gateway was running.",
        of=Of.SYSTEM,
    ),
    _histogram(
        "pyoco_run_schedule_to_start_seconds",
        "From the submission of a run, or its `start_at`, to its first start.",
        "flow",
        _RUN_BOUNDS,
        of=Of.SYSTEM,
    ),
    _max_gauge("pyoco_run_schedule_to_start_seconds", "flow", of=Of.SYSTEM),
    _histogram(
        "pyoco_run_duration_seconds",
        "From the first start of a run to its end.",
        "flow",
        _RUN_BOUNDS,
        of=Of.SYSTEM,
    ),
    _max_gauge("pyoco_run_duration_seconds", "flow", of=Of.SYSTEM),
    _gauge("pyoco_queue_waiting_jobs", "jobs", "Jobs that are not delivered yet.", "tag"),
    _gauge("pyoco_queue_in_work_jobs", "jobs", "Jobs that are delivered and not acknowledged.", "tag"),
    _gauge(
        "pyoco_queue_redelivered_jobs", "jobs", "Jobs in progress that were delivered more than once.", "tag"
    ),
    _gauge("pyoco_queue_oldest_waiting_seconds", "seconds", "Age of the oldest waiting job.", "tag"),
    _gauge("pyoco_workers_alive_total", "workers", "Workers that are RUNNING or IDLE."),
    _gauge("pyoco_workers", "workers", "Known workers, by state.", "state"),
    _gauge("pyoco_workers_paused", "workers", "Active workers that are paused."),
    _gauge("pyoco_worker_slots", "slots", "Slots of the active workers."),
    _gauge("pyoco_worker_slots_busy", "slots", "Slots that execute a run."),
    _gauge("pyoco_waits_open", "waits", "Waits for people that are open."),
    _gauge("pyoco_waits_oldest_open_seconds", "seconds", "Age of the oldest open wait."),
    _counter(
        "pyoco_waits_decided_total",
        "waits",
        "Waits that were answered, expired, cancelled or withdrawn while this gateway was running.",
        "state",
        of=Of.SYSTEM,
    ),
    _gauge(
        "pyoco_agent_requests",
        "requests",
        "Agent requests of the repository that this gateway serves, by status.",
        "status",
        of=Of.GATEWAY,
    ),
    _gauge(
        "pyoco_agent_requests_oldest_queued_seconds",
        "seconds",
        "How long the oldest agent request in the queue has waited for its turn; 0 if none waits.",
        of=Of.GATEWAY,
    ),
    _gauge("pyoco_schedules", "schedules", "Stored schedules, by state: active or paused.", "state"),
    _counter(
        "pyoco_schedule_decisions_total",
        "occurrences",
        "Occurrences of schedules by outcome, where this gateway has written it. One that was buffered "
        "counts again when it is started or skipped.",
        "outcome",
    ),
    _counter(
        "pyoco_notifications_total", "tries", "Attempts to deliver a notification, by outcome.", "outcome"
    ),
    _gauge("pyoco_alerts", "alerts", "Stored alerts, by state: firing or ok.", "state"),
    _counter(
        "pyoco_alert_messages_total",
        "tries",
        "Attempts to deliver a message of an alert, by outcome.",
        "outcome",
    ),
    _counter(
        "pyoco_signals_total",
        "signals",
        "Signals and events that this gateway has accepted, by kind: `signal` or `event`.",
        "kind",
        of=Of.GATEWAY,
    ),
    _counter(
        "pyoco_signals_received_total",
        "waits",
        "Waits that this gateway has answered with a signal or an event.",
        "kind",
    ),
    _counter(
        "pyoco_workflow_events_total",
        "events",
        "Workflow events that this gateway has received or sent again, by status in the audit.",
        "status",
    ),
    _gauge("pyoco_workflow_event_retry_jobs", "jobs", "Retry jobs of workflow events, by status.", "status"),
    _counter(
        "pyoco_workflow_event_receipts_removed_total",
        "receipts",
        "Receipts that this gateway has removed before their time (AX_WORKFLOW_EVENT_MAX_RECEIPTS).",
    ),
    _counter(
        "pyoco_workflow_event_audit_rows_lost_total",
        "rows",
        "Audit rows that this gateway could not store.",
    ),
    _counter(
        "pyoco_chat_notifications_total",
        "messages",
        "Google Chat messages about escalated workflow events and tests, by outcome.",
        "outcome",
    ),
    _counter(
        "pyoco_audit_entries_total",
        "entries",
        "Entries of the audit log that this gateway has written, by outcome of the request.",
        "outcome",
    ),
    _counter(
        "pyoco_audit_entries_lost_total",
        "entries",
        "Entries of the audit log that this gateway could not store; their actions were done.",
    ),
    _counter(
        "pyoco_audit_refusals_skipped_total",
        "requests",
        "Refused requests without an entry in the audit log: too many of one caller in a minute.",
    ),
    _gauge("pyoco_dlq_messages_total", "messages", "Stored dead letters."),
    _gauge("pyoco_dlq_bytes", "bytes", "Size of the stored dead letters."),
    _counter("pyoco_sweep_actions_total", "actions", "Actions of the sweep of this gateway.", "action"),
    _counter(
        "pyoco_unverified_runs_total",
        "runs",
        "Runs that this gateway did not execute again because they do not match their signature.",
    ),
    _counter(
        "pyoco_runs_handed_over_total",
        "runs",
        "Runs of dead workers that this gateway handed over: `running`, or delivered and `unclaimed`.",
        "state",
    ),
    _counter("pyoco_sweep_rounds_total", "rounds", "Sweep rounds of this gateway."),
    _gauge(
        "pyoco_unreadable_records",
        "records",
        "Stored records that this gateway could not read, at most 10,000 of each kind.",
        "kind",
        of=Of.GATEWAY,
    ),
    _gauge("pyoco_sweep_leader", "boolean", "1 if this gateway holds the lease of the sweep.", of=Of.GATEWAY),
    _gauge(
        "pyoco_nats_connected", "boolean", "1 if the gateway's connection to NATS is usable.", of=Of.GATEWAY
    ),
    _counter("pyoco_nats_reconnects_total", "reconnects", "Reconnects to NATS."),
    _gauge(
        "pyoco_nats_writable",
        "boolean",
        "1 if NATS stores what is published to it; 0 while its disk is full or a limit is reached.",
        of=Of.GATEWAY,
    ),
    _gauge(
        "pyoco_nats_free_bytes",
        "bytes",
        "Space that is left: on the disk of the embedded NATS server, and within each limit of NATS.",
        "of",
    ),
    _gauge("pyoco_nats_limit_bytes", "bytes", "The size of that disk, and of each of these limits.", "of"),
    _gauge(
        "pyoco_nats_read_seconds", "seconds", "Duration of the NATS requests for this page.", of=Of.GATEWAY
    ),
    _gauge(
        "pyoco_index_ready",
        "boolean",
        "1 if the index of runs is complete; while it is 0, pyoco_runs_total is left out.",
        of=Of.GATEWAY,
    ),
    _gauge("pyoco_watchers", "clients", "Clients that watch a run, a list or the inbox.", of=Of.GATEWAY),
    _counter(
        "pyoco_hook_deliveries_total",
        "deliveries",
        "Deliveries to hooks, by what became of them; refused: without a valid token or signature, or "
        "without what the hook needs.",
        "status",
    ),
    _counter(
        "pyoco_hook_deliveries_not_kept_total",
        "deliveries",
        "Deliveries that were processed and could not be kept for the list of deliveries.",
    ),
    _gauge("pyoco_hooks", "hooks", "Hooks."),
    _counter("pyoco_http_requests_total", "requests", "HTTP responses.", "method", "route", "status"),
    _histogram(
        "pyoco_http_request_seconds",
        "From a request to the first byte of its response.",
        "route",
        _REQUEST_BOUNDS,
        of=Of.GATEWAY,
    ),
    _max_gauge("pyoco_http_request_seconds", "route", of=Of.GATEWAY),
    _gauge(
        "pyoco_build_info",
        "constant",
        "1; the labels say what runs here.",
        "version",
        "pyoco_version",
        "python_version",
        of=Of.GATEWAY,
    ),
    _gauge(
        "pyoco_dependency_fast_path",
        "boolean",
        "1 if the dependency is used through its fast path, 0 if its version allows the public API only.",
        "dependency",
        of=Of.GATEWAY,
    ),
    _gauge("pyoco_start_time_seconds", "unix seconds", "When this gateway was started.", of=Of.GATEWAY),
)

METRIC: Final = {metric.name: metric for metric in METRICS}
