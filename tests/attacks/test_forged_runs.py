"""With the NATS credentials of one worker group, no code and no changed run reaches another."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_server.records.runs.dead_letter_models import DeadLetter
from pyoco_server.records.runs.run_models import encode, new_run_id
from tests.attacks.conftest import Attacker, forged_run, pickled_entry
from tests.support.running.gateway import RunningGateway
from tests.support.samples.flow_yaml import VALID_FLOW_YAML
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

FORGED_YAML = VALID_FLOW_YAML.replace("x: 1", "x: 666")


def refused(response: httpx.Response) -> bool:
    return response.status_code == 409 and response.json()["err_id"] == "ERR-PYOCO-0044"


@pytest.mark.parametrize("fields", [{"rerun_mode": "failed"}, {"attempt": 1}], ids=["rerun", "attempt"])
async def test_a_pickle_in_the_journal_of_a_forged_run_is_not_loaded(
    attacked: RunningGateway, attacker: Attacker, tmp_path: Path, fields: dict[str, Any]
) -> None:
    """The sweep finds a PENDING run without a job."""
    mark, run_id = tmp_path / "code-ran", new_run_id()
    await attacker.write_journal(run_id, pickled_entry(mark))
    await attacker.write_run(forged_run(run_id=run_id, **fields))
    run = await attacked.ends(run_id)
    assert not mark.exists()
    assert (run["status"], run["reason"]) == ("FAILED", "invalid_job")
    assert "ERR-PYOCO-0044" in run["error"]
    assert run["worker_id"] is None


async def test_the_journal_of_a_run_of_another_group_is_not_writable(
    attacked: RunningGateway, attacker: Attacker, tmp_path: Path
) -> None:
    """Also not with a run that a gateway has accepted: it is rerun from what failed."""
    mark = tmp_path / "code-ran"
    failed = await attacked.run("failing", tag="gpu")
    stored = await attacker.write_journal(failed["run_id"], pickled_entry(mark, task="fail"))
    again = await attacked.http.post(f"/runs/{failed['run_id']}/rerun", json={"mode": "failed"})
    run = await attacked.ends(again.json()["run_id"])
    assert not mark.exists()
    assert (run["status"], run["tag"]) == ("FAILED", "gpu")
    assert stored == [False, True, False], "it may write the journals of its own tag, and no others"


@pytest.mark.parametrize("body", [{"mode": "start"}, {"mode": "failed"}, {"mode": "task", "task": "load"}])
async def test_a_forged_run_is_not_rerun(
    attacked: RunningGateway, attacker: Attacker, tmp_path: Path, body: dict[str, Any]
) -> None:
    mark, run_id = tmp_path / "code-ran", new_run_id()
    await attacker.write_journal(run_id, pickled_entry(mark))
    tasks = {"load": "SUCCEEDED", "store": "FAILED"}
    await attacker.write_run(forged_run(run_id=run_id, status="FAILED", tasks=tasks, error="look at me"))
    response = await attacked.http.post(f"/runs/{run_id}/rerun", json=body)
    assert refused(response), response.text
    assert "signature" in response.json()["detail"]
    assert not mark.exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"params": {"x": 666}},
        {"tag": "cpu"},
        {"tenant_id": "mallory"},
        {"flow_name": "noop"},
        {"timeout_sec": 1.0},
        {"signature": "0" * 32},
        {"signature": None},
    ],
    ids=str,
)
async def test_a_changed_run_is_not_rerun(
    attacked: RunningGateway, attacker: Attacker, changes: dict[str, Any]
) -> None:
    honest = await attacked.run("chain", tag="gpu", params={"x": 1})
    stored = await attacker.read_run(honest["run_id"])
    changed = {name: value for name, value in {**stored, **changes}.items() if value is not None}
    await attacker.write_run(changed)
    assert refused(await attacked.http.post(f"/runs/{honest['run_id']}/rerun"))
    # As it was: its state may be anything.
    await attacker.write_run(stored)
    assert (await attacked.http.post(f"/runs/{honest['run_id']}/rerun")).status_code == 200


async def test_the_params_of_a_waiting_run_are_not_changed_before_its_answer(
    attacked: RunningGateway, attacker: Attacker, tmp_path: Path
) -> None:
    notes, elsewhere = tmp_path / "notes", tmp_path / "elsewhere"
    run_id = await attacked.submit("approval", tag="gpu", params={"notes": str(notes)})
    await attacked.reaches(run_id, "WAITING_HUMAN")
    waiting = await attacker.read_run(run_id)
    await attacker.write_run({**waiting, "params": {"notes": str(elsewhere)}})
    answer = await attacked.http.post("/resume", json={"runId": run_id, "payload": {}})
    assert answer.status_code == 200, answer.text
    run = await attacked.ends(run_id)
    assert (run["status"], run["reason"]) == ("FAILED", "invalid_job")
    assert not elsewhere.exists()
    assert "pay" not in notes.read_text()


async def test_an_unchanged_waiting_run_continues_with_its_answer(
    attacked: RunningGateway, attacker: Attacker, tmp_path: Path
) -> None:
    """Twice: the signature survives a claim, a wait, and the claim of the continuation."""
    notes = tmp_path / "notes"
    run_id = await attacked.submit("approval", tag="gpu", params={"notes": str(notes)})
    await attacked.reaches(run_id, "WAITING_HUMAN")
    assert (await attacked.http.post("/resume", json={"runId": run_id, "payload": {}})).status_code == 200
    assert (await attacked.ends(run_id))["status"] == "COMPLETED"
    again = await attacked.http.post(f"/runs/{run_id}/rerun", json={"mode": "task", "task": "pay"})
    assert (await attacked.ends(again.json()["run_id"]))["status"] == "COMPLETED"
    assert notes.read_text().split() == ["prepare", "tell", "pay", "pay"]


async def test_a_forged_flow_yaml_is_not_executed(attacked: RunningGateway, attacker: Attacker) -> None:
    accepted = await attacked.submit_yaml(VALID_FLOW_YAML, tag="gpu")
    run_id = accepted.json()["run_id"]
    await attacked.ends(run_id)
    await attacker.write_journal(run_id, FORGED_YAML.encode(), {"Pyoco-Kind": "source"})
    again = await attacked.http.post(f"/runs/{run_id}/rerun")
    assert again.status_code == 200, again.text
    run = await attacked.ends(again.json()["run_id"])
    assert run["status"] == "COMPLETED", run
    assert run["task_records"]["load"]["output"] == 2
    stored = await attacker.read_run(run_id)
    await attacker.write_run({**stored, "workflow_yaml_sha256": "0" * 64})
    assert refused(await attacked.http.post(f"/runs/{run_id}/rerun"))


async def test_a_forged_dead_letter_is_not_replayed(attacked: RunningGateway, attacker: Attacker) -> None:
    run_id = new_run_id()
    await attacker.write_run(forged_run(run_id=run_id, status="FAILED", error="look at me"))
    letter = DeadLetter(timestamp=1.0, reason="execution_error", error="look at me", run_id=run_id, tag="gpu")
    assert await attacker.publish("pyoco.dlq.gpu", encode(letter))

    async def listed() -> list[dict[str, Any]]:
        response = await attacked.http.get("/dlq", params={"run_id": run_id})
        found: list[dict[str, Any]] = response.json()["items"]
        return found

    [seen] = await eventually(listed, describe="the letter is listed")
    assert refused(await attacked.http.post(f"/dlq/{seen['seq']}/replay"))


async def test_what_was_refused_is_counted_and_explained(
    attacked: RunningGateway, attacker: Attacker
) -> None:
    run_id = new_run_id()
    await attacker.write_run(forged_run(run_id=run_id))
    await attacked.ends(run_id)
    page = (await attacked.http.get("/metrics")).text
    [count] = [line for line in page.splitlines() if line.startswith("pyoco_unverified_runs_total ")]
    assert float(count.split()[1]) >= 1
    explained = (await attacked.http.get(f"/runs/{run_id}/explain")).json()
    assert explained["findings"][0]["code"] == "failed_unverified"
    assert "signature" in explained["summary"]
