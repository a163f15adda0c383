"""The Pyoco flow that does nothing, executed by Pyoco's own engine inside a peer's task.

It is what the servers of flows execute for a no-op run. The engine is created once and traces
nothing, which is the quickest way to use it.
"""

from pyoco import Flow, task
from pyoco.core.engine import Engine
from pyoco.trace.backend import TraceBackend


class _Quiet(TraceBackend):  # type: ignore[misc]
    def on_flow_start(self, flow_name: str, run_id: str | None = None) -> None: ...
    def on_flow_end(self, flow_name: str) -> None: ...
    def on_node_start(self, node_name: str) -> None: ...
    def on_node_end(self, node_name: str, duration_ms: float) -> None: ...
    def on_node_error(self, node_name: str, error: Exception) -> None: ...


@task  # type: ignore[untyped-decorator]
def nothing(number: int) -> None: ...


_NOOP = Flow(name="noop") >> nothing
_ENGINE = Engine(trace_backend=_Quiet())


def run_noop(number: int) -> None:
    _ENGINE.run(_NOOP, {"number": number})
