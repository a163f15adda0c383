"""A gateway under requests that Schemathesis makes from its OpenAPI document.

No response may be a 500, have a status or a body that is not in the document, or accept invalid input.
"""

import subprocess
import sys
from pathlib import Path

from tests.support.places import FLOWS
from tests.support.programs import SERVER, WORKER, environment, running
from tests.support.waiting import LIMIT_SEC

_CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
    "allow_header_conformance",
)
# Endless streams have their own tests.
_ENDLESS = ("/runs/watch", "/waits/watch")


def test_every_response_conforms_to_the_document(nats_url: str, tmp_path: Path) -> None:
    settings = {"PYOCO_NATS_URL": nats_url, "PYOCO_LOG_LEVEL": "WARNING"}
    with (
        running(SERVER, "up", "--port", "0", cwd=tmp_path, **settings) as (_, gateway),
        running(WORKER, "--flows", str(FLOWS), cwd=tmp_path, **settings),
    ):
        done = _fuzz(gateway["url"], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def _fuzz(url: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    excluded = [option for path in _ENDLESS for option in ("--exclude-path", path)]
    return subprocess.run(
        [
            *(str(Path(sys.executable).parent / "schemathesis"), "run", f"{url}/openapi.json", *excluded),
            *("--checks", ",".join(_CHECKS), "--phases", "examples,coverage,fuzzing"),
            *("--max-examples", "5", "--seed", "1", "--warnings", "off"),
            *("--request-timeout", str(int(LIMIT_SEC))),
        ],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
