"""Every metric of `GET /metrics`, once: its name, kind, unit, labels and one line of help.

`make docs` writes docs/metrics.md from it. Gauges that end with `_total` are part of the contract.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Of(StrEnum):
    """What a metric speaks of."""

    # The whole system: every gateway says the same, and adding gateways up counts twice.
    SYSTEM = "system"
    # This one gateway, since it was started.
    GATEWAY = "gateway"


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    kind: Kind
    of: Of
    unit: str
    help: str
    labels: tuple[str, ...] = ()
    # Of a histogram: the upper bounds.
    bounds: tuple[float, ...] = ()


def _gauge(name: str, unit: str, help_: str, *labels: str, of: Of = Of.SYSTEM) -> Metric:
    return Metric(name, Kind.GAUGE, of, unit, help_, labels)


def _counter(name: str, unit: str, help_: str, *labels: str, of: Of = Of.GATEWAY) -> Metric:
    return Metric(name, Kind.COUNTER, of, unit, help_, labels)


# From a run of nothing on an idle worker to hours. Each is a line of every scrape, for each flow.
_RUN_BOUNDS: Final = (0.005, 0.025, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600)
_REQUEST_BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)

METRICS: Final = (
    _gauge("pyoco_runs_total", "runs", "Runs that are stored, by status.", "status"),
    _counter(
        "pyoco_runs_ended_total",
        "runs",
        "Runs that ended while this gateway looked on.",
        "flow",
        "status",
        of=Of.SYSTEM,
    ),
    _counter(
        "pyoco_redeliveries_total",
        "deliveries",
        "How often runs had to be begun again, of those that ended while this gateway looked on.",
        of=Of.SYSTEM,
    ),
    Metric(
        "pyoco_run_schedule_to_start_seconds",
        Kind.HISTOGRAM,
        Of.SYSTEM,
        "seconds",
        "From the submission of a run to its first start.",
        ("flow",),
        _RUN_BOUNDS,
    ),
    Metric(
        "pyoco_run_duration_seconds",
        Kind.HISTOGRAM,
        Of.SYSTEM,
        "seconds",
        "From the first start of a run to its end.",
        ("flow",),
        _RUN_BOUNDS,
    ),
    _gauge("pyoco_queue_waiting_jobs", "jobs", "Jobs that no worker was given yet.", "tag"),
    _gauge("pyoco_queue_in_work_jobs", "jobs", "Jobs that a worker has, or that come back from one.", "tag"),
    _gauge("pyoco_queue_redelivered_jobs", "jobs", "Of those in work: delivered more than once.", "tag"),
    _gauge(
        "pyoco_queue_oldest_waiting_seconds", "seconds", "For how long the oldest waiting job waits.", "tag"
    ),
    _gauge("pyoco_workers_alive_total", "workers", "Workers that are RUNNING or IDLE."),
    _gauge("pyoco_workers", "workers", "Workers that are known, by state.", "state"),
    _gauge("pyoco_workers_paused", "workers", "Living workers that are paused."),
    _gauge("pyoco_worker_slots", "slots", "How many runs the living workers can execute at once."),
    _gauge("pyoco_worker_slots_busy", "slots", "How many of these slots have a run."),
    _gauge("pyoco_waits_open", "waits", "Waits for people that nobody has decided."),
    _gauge(
        "pyoco_waits_oldest_open_seconds", "seconds", "For how long the oldest open wait has been waiting."
    ),
    _counter(
        "pyoco_waits_decided_total",
        "waits",
        "Waits that were answered, expired or were cancelled while this gateway looked on.",
        "state",
        of=Of.SYSTEM,
    ),
    _counter(
        "pyoco_notifications_total",
        "tries",
        "Notifications that were delivered, failed and are tried again, or were given up.",
        "outcome",
        of=Of.GATEWAY,
    ),
    _gauge("pyoco_dlq_messages_total", "messages", "Dead letters that are kept."),
    _gauge("pyoco_dlq_bytes", "bytes", "How much room the dead letters take."),
    _counter("pyoco_sweep_actions_total", "actions", "What the sweep of this gateway has done.", "action"),
    _counter("pyoco_sweep_rounds_total", "rounds", "How often this gateway has looked for work to sweep."),
    _gauge("pyoco_sweep_leader", "boolean", "1 if this is the gateway that sweeps.", of=Of.GATEWAY),
    _gauge(
        "pyoco_nats_connected", "boolean", "1 if the gateway's connection to NATS is usable.", of=Of.GATEWAY
    ),
    _counter("pyoco_nats_reconnects_total", "reconnects", "How often the connection to NATS came back."),
    _gauge(
        "pyoco_nats_read_seconds", "seconds", "How long NATS took to answer for this page.", of=Of.GATEWAY
    ),
    _gauge(
        "pyoco_index_ready",
        "boolean",
        "1 if the index of runs is complete; while it is 0, pyoco_runs_total is left out.",
        of=Of.GATEWAY,
    ),
    _gauge("pyoco_watchers", "clients", "Clients that watch a run, a list or the inbox.", of=Of.GATEWAY),
    _counter(
        "pyoco_http_requests_total", "requests", "Requests that were answered.", "method", "route", "status"
    ),
    Metric(
        "pyoco_http_request_seconds",
        Kind.HISTOGRAM,
        Of.GATEWAY,
        "seconds",
        "From a request to the first byte of its answer.",
        ("route",),
        _REQUEST_BOUNDS,
    ),
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
