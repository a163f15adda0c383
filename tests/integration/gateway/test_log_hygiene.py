"""What logs contain about a failure, and what they must not contain."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.run_models import new_run_id
from pyoco_server.telemetry.logging_config import configure_logging
from tests.support.offline_gateway import offline_gateway
from tests.support.running.gateway import running_gateway
from tests.support.running.workers import serving_worker

SECRET = "hunter2-and-more"


@pytest.fixture
def log_stream(config: NatsBackendConfig) -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    stream = io.StringIO()
    configure_logging(service="pyoco-server:test", config=config, stream=stream)
    yield stream
    root.handlers[:] = before
    root.setLevel(level)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def with_error(stream: io.StringIO, number: int) -> dict[str, Any]:
    found = [line for line in lines(stream) if line.get("err_id") == f"ERR-PYOCO-{number:04d}"]
    assert found, stream.getvalue()
    return found[0]


async def test_failed_runs_are_logged_with_their_ids_and_without_params_or_credentials(
    config: NatsBackendConfig, log_stream: io.StringIO
) -> None:
    params = {"message": f"wrong password {SECRET}", "nested": {"list": [SECRET]}}
    credentials = config.nats_url.partition("//")[2].partition("@")[0]
    async with running_gateway(config) as gateway, serving_worker(config):
        run_id = await gateway.submit("failing", params=params)
        for ended in (
            run_id,
            *[await gateway.submit(flow, params=params) for flow in ("chain", "nobody-knows", "leaving")],
        ):
            await gateway.ends(ended)
    line = with_error(log_stream, 7)
    assert line["msg_id"] == "MSG-PYOCO-0007"
    assert line["level"] == "ERROR"
    assert (line["run_id"], line["flow_name"], line["tag"]) == (run_id, "failing", "default")
    assert (line["worker_id"], line["reason"]) == ("worker", "execution_error")
    assert line["exc_type"] == "ValueError"
    assert "basics.py" in line["exc_traceback"]
    origin = line["exc_origin"]
    assert origin["file"].endswith("basics.py"), "the place of the raise"
    assert (line["pathname"], line["lineno"], line["func"]) == tuple(origin.values())
    for about in (each for each in lines(log_stream) if "run_id" in each and "worker" in each["logger"]):
        assert {"flow_name", "tag", "worker_id"} <= set(about), about
    assert {"ts", "service", "logger", "message", "pathname", "lineno", "func"} <= set(line)
    assert with_error(log_stream, 6)["reason"] == "flow_not_found"
    written = log_stream.getvalue()
    assert "connected to NATS" in written
    assert SECRET not in written
    assert credentials not in written


async def test_a_rejected_request_is_logged_with_its_field_and_without_its_values(
    log_stream: io.StringIO,
) -> None:
    http = offline_gateway()
    response = await http.post("/runs", json={"flow_name": "f", "tag": SECRET + "."})
    assert response.status_code == 422
    source = f"version: 1\nflow: {{graph: a, defaults: {{password: !!binary {SECRET}}}}}\n"
    form = {"workflow": ("flow.yaml", source)}
    assert (await http.post("/runs/yaml", files=form, data={"flow_name": "f"})).status_code == 422
    line = with_error(log_stream, 2)
    assert (line["level"], line["exc_type"], line["reason"]) == ("INFO", "InvalidRequest", "tag")
    assert line["exc_message"] == "The request is not valid: tag"
    assert line["pathname"] == line["exc_origin"]["file"]
    assert line["pathname"].endswith("routes/runs/submit_routes.py")
    assert "exc_traceback" not in line
    assert SECRET not in log_stream.getvalue()


async def test_every_error_response_is_logged_with_the_place_where_it_was_raised(
    log_stream: io.StringIO,
) -> None:
    run_id = new_run_id()
    http = offline_gateway()
    # An unknown path, a wrong method, an invalid query, an unknown host, and NATS that is not there.
    for method, path in (("GET", "/nothing"), ("PUT", "/runs"), ("GET", "/runs?limit=x"), ("POST", "/runs")):
        await http.request(method, path, json={"flow_name": "f"}, headers={"Host": "localhost"})
    await http.get("/runs", headers={"Host": "evil.example"})
    await http.get(f"/runs/{run_id}")
    written = [line for line in lines(log_stream) if line["logger"].endswith("http_problems")]
    assert [line["message"].split()[0] for line in written] == ["404", "405", "422", "503", "403", "503"]
    for line in written:
        place = {"file": line["pathname"], "line": line["lineno"], "func": line["func"]}
        assert line["exc_origin"] == place
        assert not line["pathname"].endswith("http_problems.py"), (
            "where it was raised, not where it is logged"
        )
        assert line["exc_type"]
        assert line["exc_message"]
        assert ("exc_traceback" in line) == line["message"].startswith("5")
    unavailable = written[-1]
    assert (unavailable["exc_type"], unavailable["run_id"]) == ("NatsUnavailable", run_id)
    assert unavailable["exc_traceback"].startswith("Traceback (most recent call last):\n")
