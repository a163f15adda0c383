"""The public interface: the names that `pyoco_server` exports, and the import paths of the contract."""

import subprocess
import sys
from importlib import import_module

import pytest

import pyoco_server

PUBLIC_NAMES = {
    "AsyncPyocoHttpClient",
    "GatewayUnreachable",
    "NatsBackendConfig",
    "PyocoError",
    "PyocoHttpClient",
    "PyocoHttpError",
    "PyocoNatsWorker",
    "__version__",
    "configure_logging",
    "create_app",
}


def test_exported_names() -> None:
    assert set(pyoco_server.__all__) == PUBLIC_NAMES
    for name in PUBLIC_NAMES:
        assert getattr(pyoco_server, name) is not None


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Gateway'"):
        _ = pyoco_server.Gateway


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("config", "NatsBackendConfig"),
        ("http_api", "create_app"),
        ("worker", "PyocoNatsWorker"),
        ("http_client", "PyocoHttpClient"),
        ("http_client", "AsyncPyocoHttpClient"),
        ("telemetry.logging_config", "configure_logging"),
    ],
)
def test_import_path_of_the_contract(module: str, name: str) -> None:
    assert getattr(import_module(f"pyoco_server.{module}"), name) is getattr(pyoco_server, name)


def test_exports_of_the_client_exist() -> None:
    client = import_module("pyoco_server.http_client")
    assert [name for name in client.__all__ if not hasattr(client, name)] == []


def test_package_import_is_lazy() -> None:
    """`import pyoco_server` must not load the web framework, NATS or the engine."""
    heavy = "{'fastapi', 'nats', 'httpx', 'pyoco'} & set(sys.modules)"
    program = f"import sys, pyoco_server; sys.exit(str({heavy}) if {heavy} else 0)"
    subprocess.run([sys.executable, "-c", program], check=True)
