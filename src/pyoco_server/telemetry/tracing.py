"""One trace per run if PYOCO_OTEL_ENABLED is set; otherwise nothing is imported.

The gateway starts the trace with the submit, or continues the caller's; the job carries it in its message
headers; the worker records the spans of the run and its tasks when the run has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import ConfigError
from pyoco_server.records.runs.run_models import Job, RunSnapshot

if TYPE_CHECKING:
    from pyoco_server.telemetry.otel_traces import RunTraces

_nothing: AbstractContextManager[None] = nullcontext()
_traces: RunTraces | None = None


@contextmanager
def tracing(config: NatsBackendConfig, *, service: str) -> Iterator[None]:
    """Record traces inside the block if enabled; pending spans are sent at its end."""
    if not config.otel_enabled:
        yield
        return
    global _traces  # noqa: PLW0603 - one per program, as in OpenTelemetry itself
    try:
        from pyoco_server.telemetry.otel_traces import RunTraces  # noqa: PLC0415 - an extra, and slow to load
    except ImportError as error:
        raise ConfigError(
            f"PYOCO_OTEL_ENABLED=1: {error}; install pyoco-server with its extra `otel`, or set it to 0"
        ) from error
    _traces = RunTraces(service)
    try:
        yield
    finally:
        ending, _traces = _traces, None
        ending.close()


def submitting(job: Job, headers: Callable[[], Mapping[str, str]]) -> AbstractContextManager[None]:
    """The span of a submit; messages published inside the block carry its trace."""
    return _nothing if _traces is None else _traces.submitting(job, headers())


def trace_headers() -> dict[str, str]:
    """The headers that propagate the current trace with a message."""
    return {} if _traces is None else _traces.trace_headers()


def record_run(snapshot: RunSnapshot, headers: Mapping[str, str]) -> None:
    """Record the spans of an ended run and its tasks in the trace of its job."""
    if _traces is not None:
        _traces.record_run(snapshot, headers)
