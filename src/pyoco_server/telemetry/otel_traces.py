"""Runs as OpenTelemetry spans (the extra `otel`), sent by OTLP as the `OTEL_*` variables configure.

The worker that ends a run records all spans of it; one that crashes before records none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import msgspec
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.propagate import extract, inject
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context

from pyoco_server.errors import UnreadableRecord
from pyoco_server.records.decoding import record_decoder
from pyoco_server.records.moments import Timestamp
from pyoco_server.records.runs.run_models import Job, RunSnapshot, RunStatus
from pyoco_server.telemetry.key_redaction import redact_keys


class _TaskTimes(msgspec.Struct):
    # Unknown for a task whose executor crashed.
    state: str = ""
    started_at: Timestamp | None = None
    ended_at: Timestamp | None = None
    error: str | None = None
    # Executed by an earlier attempt or by the original of a rerun.
    replayed: bool = False


_decode = record_decoder(_TaskTimes)


class RunTraces:
    def __init__(self, service: str) -> None:
        self._provider = TracerProvider(resource=Resource.create({"service.name": service}))
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("pyoco_server")

    def close(self) -> None:
        """Send the pending spans."""
        self._provider.shutdown()

    @contextmanager
    def submitting(self, job: Job, headers: Mapping[str, str]) -> Iterator[None]:
        with self._tracer.start_as_current_span(
            f"submit {redact_keys(job.flow_name)}",
            context=extract(headers),
            kind=SpanKind.PRODUCER,
            attributes={
                "pyoco.run_id": job.run_id,
                "pyoco.flow_name": redact_keys(job.flow_name),
                "pyoco.tag": job.tag,
            },
        ):
            yield

    def trace_headers(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        inject(headers)
        return headers

    def record_run(self, snapshot: RunSnapshot, headers: Mapping[str, str]) -> None:
        span = self._tracer.start_span(
            f"run {redact_keys(snapshot.flow_name)}",
            context=extract(headers),
            kind=SpanKind.CONSUMER,
            start_time=_nanoseconds(snapshot.start_time or snapshot.updated_at),
            attributes={
                "pyoco.run_id": snapshot.run_id,
                "pyoco.flow_name": redact_keys(snapshot.flow_name),
                "pyoco.tag": snapshot.tag,
                "pyoco.worker_id": snapshot.worker_id or "",
                "pyoco.attempt": snapshot.shown_attempt,
                "pyoco.status": snapshot.status.value,
                "pyoco.reason": snapshot.reason or "",
            },
        )
        parent = set_span_in_context(span)
        for name, record in (snapshot.task_records or {}).items():
            # A task can write anything into its record.
            with suppress(UnreadableRecord):
                self._record_task(name, _decode(bytes(record)), parent)
        _end(span, snapshot.end_time, snapshot.error if snapshot.status is RunStatus.FAILED else None)

    def _record_task(self, name: str, task: _TaskTimes, run: Context) -> None:
        if task.started_at is None:
            return
        span = self._tracer.start_span(
            f"task {name}",
            context=run,
            start_time=_nanoseconds(task.started_at),
            attributes={"pyoco.task": name, "pyoco.state": task.state, "pyoco.replayed": task.replayed},
        )
        _end(span, task.ended_at, task.error)


def _end(span: Span, at: float | None, error: str | None) -> None:
    if error is not None:
        span.set_status(Status(StatusCode.ERROR, redact_keys(error)))
    span.end(None if at is None else _nanoseconds(at))


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
