"""A gateway under requests that Schemathesis makes from its OpenAPI document.

No response may be a 500, have a status or a body that is not in the document, or accept invalid input.
"""

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pyoco_server.broker.stores.runs.dead_letters import DeadLetters
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.dead_letter_models import DeadLetter
from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.triggers.secret_keys import new_key
from tests.support.broker.connections import connected
from tests.support.broker.stored_runs import ended, write
from tests.support.broker.worker_records import a_record, put_record
from tests.support.programs import SERVER, environment, running
from tests.support.running.waiting_runs import waiting_run
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
# Tested alone: with the ids of submitted runs it would follow one that no worker executes, for ever.
_FOLLOWS_A_RUN = "/runs/{run_id}/watch"
# In parts, which are tested at the same time.
_RUNS = "^/(runs|waits|resume|bulk|dlq)"
_TRIGGERS = "^/(hooks|api|schedules|events)"


@pytest.mark.parametrize(
    "paths",
    [
        ("--include-path-regex", _RUNS),
        ("--include-path-regex", _TRIGGERS),
        ("--exclude-path-regex", f"{_RUNS}|{_TRIGGERS}"),
    ],
    ids=["runs", "triggers", "others"],
)
def test_every_response_conforms_to_the_document(
    nats_url: str, tmp_path: Path, paths: tuple[str, str]
) -> None:
    asyncio.run(_store_records(nats_url))
    settings = {"PYOCO_NATS_URL": nats_url, "PYOCO_LOG_LEVEL": "WARNING", "PYOCO_SECRETS_KEYS": new_key()}
    with running(SERVER, "up", "--port", "0", cwd=tmp_path, **settings) as (_, gateway):
        excluded = [option for path in (*_ENDLESS, _FOLLOWS_A_RUN) for option in ("--exclude-path", path)]
        _fuzz(gateway["url"], tmp_path, *paths, *excluded)


def test_a_watch_of_a_run_conforms_to_the_document(nats_url: str, tmp_path: Path) -> None:
    settings = {"PYOCO_NATS_URL": nats_url, "PYOCO_LOG_LEVEL": "WARNING"}
    with running(SERVER, "up", "--port", "0", cwd=tmp_path, **settings) as (_, gateway):
        _fuzz(gateway["url"], tmp_path, "--include-path", _FOLLOWS_A_RUN)


async def _store_records(nats_url: str) -> None:
    """What a worker leaves behind, so that the lists are not empty."""
    now = time.time()
    failed = ended(RunStatus.FAILED, at=now, error="ValueError: no rows", worker_id="worker")
    letter = DeadLetter(timestamp=now, reason="execution_error", error=failed.error, run_id=failed.run_id)
    async with connected(NatsBackendConfig(nats_url=nats_url, load_dotenv=False)) as connection:
        await put_record(connection, a_record("worker", seen_at=now + LIMIT_SEC))
        await write(RunStore(connection), failed)
        await DeadLetters(connection).publish(letter, tag=failed.tag)
        await waiting_run(connection)


def _fuzz(url: str, cwd: Path, *selection: str) -> None:
    done = subprocess.run(
        [
            *(str(Path(sys.executable).parent / "schemathesis"), "run", f"{url}/openapi.json", *selection),
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
    assert done.returncode == 0, done.stdout + done.stderr
