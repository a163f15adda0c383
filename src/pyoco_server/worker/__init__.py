"""The worker: pulls runs, claims them, and has an executor run them.

`PyocoNatsWorker` is imported on first use: an executor process imports this package too, and needs
neither NATS nor the code that pulls and claims runs.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyoco_server.worker.nats_worker import PyocoNatsWorker

__all__ = ["PyocoNatsWorker"]


def __getattr__(name: str) -> object:
    if name == "PyocoNatsWorker":
        from pyoco_server.worker.nats_worker import PyocoNatsWorker  # noqa: PLC0415

        return PyocoNatsWorker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
