"""Runs the public package in an environment of its own, and leaves what an installation of it leaves."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from benchmarks.harness.environments import Environment

from tests.support.ports import port_to_keep
from tests.support.programs import Program, started
from tests.support.samples.wheels import wheel_bytes
from tests.support.waiting import LIMIT_SEC, eventually_sync

VERSION = "0.5.1"
FLOWS_FILE = Path(__file__).parent / "flows" / "public_flows.py"
WHEEL = "greetings-0.1.0-py3-none-any.whl"
TENANT = "acme"
PEPPER = "a pepper"
# On Python 3.11 its workers hang after some runs.
_PYTHON = (3, 12)
_ENVIRONMENT = Environment(f"public-{VERSION}", (f"pyoco-server=={VERSION}",), at_least=_PYTHON)


@dataclass(frozen=True)
class Leftovers:
    """What the stopped installation has left."""

    # The secret of its API key.
    api_key: str
    # Ids of runs: three that ended, one in progress when its worker was killed, two that were never started.
    completed: str
    failed: str
    without_tag: str
    in_progress: str
    queued: str
    other_tag: str


def environment() -> Environment:
    """Its environment, installed; the test is skipped where there is no suitable Python."""
    if not _has_python():
        pytest.skip(f"the public package needs Python {_PYTHON[0]}.{_PYTHON[1]} or newer, and there is none")
    _ENVIRONMENT.prepare()
    return _ENVIRONMENT


def _has_python() -> bool:
    if sys.version_info >= _PYTHON:
        return True
    names = [f"python3.{minor}" for minor in range(_PYTHON[1], 20)]
    of_pyenv = [str(found) for name in names for found in Path.home().glob(f".pyenv/versions/*/bin/{name}")]
    on_path = [found for name in names if (found := shutil.which(name))]
    return any(
        subprocess.run([found, "--version"], capture_output=True, check=False).returncode == 0
        for found in [*on_path, *of_pyenv]
    )


def use(nats_url: str, folder: Path, **worker_settings: str) -> Leftovers:
    """Install the package, use it as its users do, and stop it in the middle of its work."""
    programs = environment()
    key = _create_key(programs, nats_url)
    with _gateway(programs, nats_url, key) as http:
        with _worker(programs, nats_url, worker_settings):
            completed = _submit(http, "adder", {"a": 1})
            failed = _submit(http, "broken", {})
            _ends(http, completed, "COMPLETED")
            _ends(http, failed, "FAILED")
            # Its worker fails it without its tag and its tenant, so that its own gateway does not find it.
            broken_yaml = {"workflow": ("flow.yaml", b"version: 1\nflow:\n  graph: nothing\ntasks: {}\n")}
            answer = http.post("/runs/yaml", files=broken_yaml, data={"flow_name": "y", "tag": "default"})
            without_tag = str(answer.raise_for_status().json()["run_id"])
            _is_lost(http, without_tag)
            begun = folder / "begun"
            in_progress = _submit(http, "blocked", {"begun": str(begun)})
            eventually_sync(begun.exists, describe="the run has begun")
        queued = _submit(http, "adder", {"a": 40})
        other_tag = _submit(http, "adder", {"a": 7}, tag="lone")
        wheel = {"wheel": (WHEEL, wheel_bytes(), "application/octet-stream")}
        http.post("/wheels", files=wheel, data={"tags": "default"}).raise_for_status()
    return Leftovers(key, completed, failed, without_tag, in_progress, queued, other_tag)


@contextmanager
def _gateway(programs: Environment, nats_url: str, key: str) -> Iterator[httpx.Client]:
    port = port_to_keep()
    command = [programs.program("pyoco-server"), "up", "--port", str(port), "--nats-url", nats_url]
    http = httpx.Client(
        base_url=f"http://127.0.0.1:{port}", headers={"X-API-Key": key}, timeout=LIMIT_SEC, verify=False
    )
    with started(command, PYOCO_HTTP_AUTH_MODE="api_key", PYOCO_AUTH_PEPPER=PEPPER) as gateway, http:
        eventually_sync(lambda: _is_up(http, gateway), describe="the public gateway is up")
        yield http


def _is_up(http: httpx.Client, gateway: Program) -> bool:
    assert gateway.process.poll() is None, gateway.stderr
    try:
        return http.get("/health").is_success
    except httpx.TransportError:
        return False


@contextmanager
def _worker(programs: Environment, nats_url: str, settings: dict[str, str]) -> Iterator[None]:
    """A worker that is killed at the end, as on a machine that is switched off."""
    command = [programs.program("pyoco-worker"), "--nats-url", nats_url, "--tags", "default,gpu"]
    command += ["--worker-id", "public-worker", "--flow-resolver", f"{FLOWS_FILE}:resolve_flow"]
    with started(command, cwd=None, **settings):
        yield


def _create_key(programs: Environment, nats_url: str) -> str:
    command = [programs.program("pyoco-server-admin"), "--nats-url", nats_url, "api-key", "create"]
    with started([*command, "--tenant", TENANT], PYOCO_AUTH_PEPPER=PEPPER) as created:
        assert created.end() == 0, created.stderr
    return str(json.loads(created.stdout)["api_key"])


def _submit(http: httpx.Client, flow: str, params: dict[str, Any], tag: str = "default") -> str:
    answer = http.post("/runs", json={"flow_name": flow, "params": params, "tag": tag})
    return str(answer.raise_for_status().json()["run_id"])


def _ends(http: httpx.Client, run_id: str, status: str) -> None:
    def ended() -> bool:
        return bool(http.get(f"/runs/{run_id}").raise_for_status().json()["status"] == status)

    eventually_sync(ended, describe=f"the public run {run_id} is {status}")


def _is_lost(http: httpx.Client, run_id: str) -> None:
    eventually_sync(
        lambda: http.get(f"/runs/{run_id}").status_code == httpx.codes.NOT_FOUND,
        describe=f"the public run {run_id} has lost its tenant",
    )


if __name__ == "__main__" and _has_python():
    # `make test` installs it before the tests: a download is no part of what a test may take.
    _ENVIRONMENT.prepare()
