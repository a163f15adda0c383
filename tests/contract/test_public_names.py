"""The public interface: the names that `pyoco_server` exports, and the import paths of the contract."""

import subprocess
import sys
from importlib import import_module

import pytest

import pyoco_server

PUBLIC_NAMES = {
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
        ("nats_client", "PyocoNatsClient"),
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


def test_names_of_the_helper_for_tests() -> None:
    testing = import_module("pyoco_server.testing")
    names = {"EXPIRE", "AnswerRefused", "AskedQuestion", "FlowResult", "UnansweredQuestion", "run_flow"}
    assert set(testing.__all__) == names
    assert [name for name in names if not hasattr(testing, name)] == []


@pytest.mark.parametrize(
    ("modules", "heavy"),
    [
        ("pyoco_server", {"fastapi", "nats", "httpx", "pyoco"}),
        # Of a gateway without notifications, answers, secrets and agents, in which they would stay for ever.
        (
            "pyoco_server.cli.server.up_command",
            {"cryptography", "fastapi", "httpx", "jsonschema", "opentelemetry", "pydantic", "rich"}
            | {"mcp", "mcp_types", "pyoco_server.mcp_tools"},
        ),
        ("pyoco_server.cli.client_command", {"mcp", "mcp_types", "pyoco_server.mcp_tools"}),
        # Of a worker with executor processes, which load flows and execute them.
        (
            "pyoco_server.cli.worker_process",
            {"pyoco_server.worker.executors.thread_executor", "pyoco_server.worker.flows.flow_files"},
        ),
    ],
)
def test_import_does_not_load_what_is_rarely_needed(modules: str, heavy: set[str]) -> None:
    program = (
        f"import sys, {modules}; loaded = {heavy} & set(sys.modules); sys.exit(str(loaded) if loaded else 0)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
