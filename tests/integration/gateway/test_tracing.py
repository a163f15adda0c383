"""One trace per run, exported by real processes to an OTLP collector."""

import gzip
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from pyoco_server.http_client import PyocoHttpClient
from tests.support.places import FLOWS
from tests.support.programs import SERVER, WORKER, run_command, running
from tests.support.waiting import eventually_sync

CALLERS_TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLERS_SPAN = "b7ad6b7169203331"


class Collector(ThreadingHTTPServer):
    """Takes spans as any OpenTelemetry collector does."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Receiver)
        self.spans: dict[str, Any] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def heard_of(self, *names: str) -> None:
        eventually_sync(lambda: set(names) <= self.spans.keys(), describe=f"the spans {names}")

    def take(self, body: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                self.spans |= {span.name: span for span in scope.spans}


class _Receiver(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.take(gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield server
        server.shutdown()
        serving.join()


@pytest.fixture(scope="module")
def gateway_url(
    _unused_accounts: Iterator[str], tmp_path_factory: pytest.TempPathFactory, collector: Collector
) -> Iterator[str]:
    settings = {
        "PYOCO_NATS_URL": next(_unused_accounts),
        "PYOCO_OTEL_ENABLED": "1",
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_BSP_SCHEDULE_DELAY": "50",
    }
    folder = tmp_path_factory.mktemp("traced")
    with (
        running(SERVER, "up", "--port", "0", cwd=folder, **settings) as (_, gateway),
        running(WORKER, "--flows", str(FLOWS), cwd=folder, **settings),
    ):
        yield gateway["url"]


def test_a_run_is_one_trace_from_its_submit_to_its_tasks(gateway_url: str, collector: Collector) -> None:
    traceparent = f"00-{CALLERS_TRACE}-{CALLERS_SPAN}-01"
    response = httpx.post(
        f"{gateway_url}/runs",
        json={"flow_name": "chain"},
        headers={"traceparent": traceparent},
        trust_env=False,
    )
    run_id = response.json()["run_id"]
    with PyocoHttpClient(gateway_url) as client:
        assert client.wait(run_id, timeout_sec=20)["status"] == "COMPLETED"
    collector.heard_of("submit chain", "run chain", "task load", "task store")
    submit, run = collector.spans["submit chain"], collector.spans["run chain"]
    tasks = [collector.spans[f"task {name}"] for name in ("load", "store")]
    assert {span.trace_id.hex() for span in (submit, run, *tasks)} == {CALLERS_TRACE}
    assert submit.parent_span_id.hex() == CALLERS_SPAN
    assert run.parent_span_id == submit.span_id
    assert {span.parent_span_id for span in tasks} == {run.span_id}
    assert all(run.start_time_unix_nano <= span.start_time_unix_nano for span in tasks)
    assert attributes(run)["pyoco.run_id"] == run_id
    assert attributes(run)["pyoco.status"] == "COMPLETED"


def test_a_failed_run_and_its_task_are_error_spans(gateway_url: str, collector: Collector) -> None:
    with PyocoHttpClient(gateway_url) as client:
        run = client.submit_run("failing")
        assert client.wait(run["run_id"], timeout_sec=20)["status"] == "FAILED"
    collector.heard_of("run failing")
    failed = [span for span in collector.spans.values() if span.status.code == span.status.STATUS_CODE_ERROR]
    assert any(span.name.startswith("task ") for span in failed)
    assert collector.spans["run failing"] in failed


def test_tracing_without_its_packages_says_what_is_missing(nats_url: str, tmp_path: Path) -> None:
    missing = tmp_path / "opentelemetry" / "sdk"
    missing.mkdir(parents=True)
    (missing / "__init__.py").write_text("raise ImportError('no SDK here')")
    settings = {"PYOCO_NATS_URL": nats_url, "PYOCO_OTEL_ENABLED": "1", "PYTHONPATH": str(tmp_path)}
    ended = run_command(SERVER, "up", "--port", "0", cwd=tmp_path, **settings)
    assert ended.returncode == 1
    assert "PYOCO_OTEL_ENABLED" in ended.stderr
    assert "`otel`" in ended.stderr


def test_tracing_is_not_imported_unless_enabled() -> None:
    programs = "pyoco_server.cli.server.server_command, pyoco_server.cli.worker_command"
    program = f"import sys, {programs}; print('opentelemetry.sdk' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def attributes(span: Any) -> dict[str, Any]:
    return {item.key: getattr(item.value, item.value.WhichOneof("value")) for item in span.attributes}
