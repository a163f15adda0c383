"""One trace per run, where it is wanted (`PYOCO_OTEL_ENABLED`); otherwise nothing is done or loaded.

The gateway begins the trace with the submit, or goes on with the caller's; the job carries it in the
headers of its message; the worker tells the run and its tasks once the run has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import ConfigError
from pyoco_server.records.models import Job, RunSnapshot

if TYPE_CHECKING:
    from pyoco_server.telemetry.otel_traces import RunTraces

_nothing: AbstractContextManager[None] = nullcontext()
_traces: RunTraces | None = None


@contextmanager
def tracing(config: NatsBackendConfig, *, service: str) -> Iterator[None]:
    """Tell traces inside the block, if the settings want it; what is left at its end is sent then."""
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
    """The span of a submit: what is published inside the block carries its trace."""
    return _nothing if _traces is None else _traces.submitting(job, headers())


def carried() -> dict[str, str]:
    """The headers that take the trace of what is done now to whoever gets the message."""
    return {} if _traces is None else _traces.carried()


def tell_run(snapshot: RunSnapshot, headers: Mapping[str, str]) -> None:
    """The spans of a run that has ended, and of its tasks, in the trace that its job came with."""
    if _traces is not None:
        _traces.tell_run(snapshot, headers)
