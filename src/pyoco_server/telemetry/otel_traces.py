"""Runs as OpenTelemetry spans (the extra `otel`), sent by OTLP to wherever its `OTEL_*` variables say.

A run and its tasks are told when the run has ended, since their times are known then; a worker that dies
on the way tells nothing, and the one that finishes the run tells all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import msgspec
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.propagate import extract, inject
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context

from pyoco_server.records.models import Job, RunSnapshot, RunStatus


class _TaskTimes(msgspec.Struct):
    """What a task's record says that a span wants."""

    # Not known of a task whose executor was lost.
    state: str = ""
    started_at: float | None = None
    ended_at: float | None = None
    error: str | None = None
    # Executed by an earlier attempt or by the run that this one repeats, and not again.
    replayed: bool = False


_decode = msgspec.json.Decoder(_TaskTimes).decode


class RunTraces:
    def __init__(self, service: str) -> None:
        self._provider = TracerProvider(resource=Resource.create({"service.name": service}))
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("pyoco_server")

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()

    @contextmanager
    def submitting(self, job: Job, headers: Mapping[str, str]) -> Iterator[None]:
        with self._tracer.start_as_current_span(
            f"submit {job.flow_name}",
            context=extract(headers),
            kind=SpanKind.PRODUCER,
            attributes={"pyoco.run_id": job.run_id, "pyoco.flow_name": job.flow_name, "pyoco.tag": job.tag},
        ):
            yield

    def carried(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        inject(headers)
        return headers

    def tell_run(self, snapshot: RunSnapshot, headers: Mapping[str, str]) -> None:
        span = self._tracer.start_span(
            f"run {snapshot.flow_name}",
            context=extract(headers),
            kind=SpanKind.CONSUMER,
            start_time=_nanoseconds(snapshot.start_time or snapshot.updated_at),
            attributes={
                "pyoco.run_id": snapshot.run_id,
                "pyoco.flow_name": snapshot.flow_name,
                "pyoco.tag": snapshot.tag,
                "pyoco.worker_id": snapshot.worker_id or "",
                "pyoco.attempt": snapshot.attempt,
                "pyoco.status": snapshot.status.value,
                "pyoco.reason": snapshot.reason or "",
            },
        )
        inside = set_span_in_context(span)
        for name, record in (snapshot.task_records or {}).items():
            self._tell_task(name, _decode(record), inside)
        _end(span, snapshot.end_time, snapshot.error if snapshot.status is RunStatus.FAILED else None)

    def _tell_task(self, name: str, task: _TaskTimes, run: Context) -> None:
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
        span.set_status(Status(StatusCode.ERROR, error))
    span.end(None if at is None else _nanoseconds(at))


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
