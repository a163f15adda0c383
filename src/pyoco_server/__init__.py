"""pyoco-server: durable runs of Pyoco flows over HTTP and NATS JetStream.

The names of `__all__`, and those of `pyoco_server.testing`, are the public interface of this package; a name
is imported on first use. All other modules are private: they may change in any release.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from pyoco_server.version import __version__

if TYPE_CHECKING:
    from pyoco_server.config import NatsBackendConfig
    from pyoco_server.errors import PyocoError
    from pyoco_server.http_api import create_app
    from pyoco_server.http_client import (
        AsyncPyocoHttpClient,
        GatewayUnreachable,
        PyocoHttpClient,
        PyocoHttpError,
    )
    from pyoco_server.nats_client import PyocoNatsClient
    from pyoco_server.telemetry.logging_config import configure_logging
    from pyoco_server.waits.human.answer_types import HumanAnswer, HumanTimeout
    from pyoco_server.waits.wait_arguments import WaitTimeout
    from pyoco_server.worker import PyocoNatsWorker
    from pyoco_server.worker.flows.task_options import task_options

__all__ = [
    "AsyncPyocoHttpClient",
    "GatewayUnreachable",
    "HumanAnswer",
    "HumanTimeout",
    "NatsBackendConfig",
    "PyocoError",
    "PyocoHttpClient",
    "PyocoHttpError",
    "PyocoNatsClient",
    "PyocoNatsWorker",
    "WaitTimeout",
    "__version__",
    "configure_logging",
    "create_app",
    "task_options",
]

_DEFINED_IN = {
    "AsyncPyocoHttpClient": "pyoco_server.http_client",
    "GatewayUnreachable": "pyoco_server.http_client",
    "HumanAnswer": "pyoco_server.waits.human.answer_types",
    "HumanTimeout": "pyoco_server.waits.human.answer_types",
    "NatsBackendConfig": "pyoco_server.config",
    "PyocoError": "pyoco_server.errors",
    "PyocoHttpClient": "pyoco_server.http_client",
    "PyocoHttpError": "pyoco_server.http_client",
    "PyocoNatsClient": "pyoco_server.nats_client",
    "PyocoNatsWorker": "pyoco_server.worker",
    "WaitTimeout": "pyoco_server.waits.wait_arguments",
    "configure_logging": "pyoco_server.telemetry.logging_config",
    "create_app": "pyoco_server.http_api",
    "task_options": "pyoco_server.worker.flows.task_options",
}


def __getattr__(name: str) -> object:
    if name in _DEFINED_IN:
        return getattr(import_module(_DEFINED_IN[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
