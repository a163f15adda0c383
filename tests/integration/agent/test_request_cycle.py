"""Requests over HTTP with a worker: the whole cycle, questions, stops, reruns, and the WebSocket."""

from collections.abc import AsyncIterator

import pytest

from pyoco_server.config import NatsBackendConfig
from tests.support.agent.repository import WEB_URL, AgentRepository, git
from tests.support.agent.served_repository import (
    ServedRepository,
    read_events,
    repository_worker,
    served_config,
)
from tests.support.waiting import eventually

PHASES = ["planning", "implementing", "testing", "documenting", "pushing", "reporting"]
QUESTION = {"text": "Which format?", "why": "there are two", "format": "ISO or US", "choices": ["ISO", "US"]}


@pytest.fixture
async def working(
    served: ServedRepository, config: NatsBackendConfig, repository: AgentRepository
) -> AsyncIterator[ServedRepository]:
    """The same gateway, with the worker of the repository."""
    async with repository_worker(served_config(config, repository)):
        yield served


async def test_request_is_planned_implemented_pushed_and_reported(working: ServedRepository) -> None:
    await working.create("one")
    assert (await working.act("one", "enqueue"))["status"] == "queued"
    done = await working.reaches("one", "done", "failed")
    assert (done["status"], done["failure_reason"]) == ("done", None)
    assert done["pr_url"] == f"{WEB_URL}/compare/main...ai/one?expand=1"
    assert done["last_commit"] == git(working.repository.origin, "rev-parse", "ai/one").strip()
    assert (done["run_id"], done["phase"], done["enqueued_at"]) == ("001", "reporting", None)
    assert done["paths"]["run_dir"] == "runs/one/001"
    run = (await working.ok("GET", "/requests/one/runs/latest"))["run"]
    assert (run["id"], run["request_id"], run["status"]) == ("001", "one", "done")
    assert run["artifacts"]["log_file"] == "runs/one/001/runner.log"
    assert run["started_at"] <= run["ended_at"]
    assert [(step["id"], step["state"]) for step in run["steps"]] == [
        ("S01", "done"),
        ("S02", "done"),
        ("S03", "done"),
    ]
    detail = await working.ok("GET", "/requests/one")
    assert "#### S01" in detail["content"]["sections"]["plan"]
    assert "### Run 001" in detail["content"]["sections"]["report"]
    log = await working.call("GET", "/requests/one/runs/001/artifacts/runner.log")
    assert log.headers["content-type"] == "text/plain; charset=utf-8"
    assert "[DONE] pr_url=" in log.text
    missing = "/requests/one/runs/001/artifacts/nope.log"
    assert await working.error("GET", missing) == (404, "ARTIFACT_NOT_FOUND")


async def test_socket_has_every_line_phase_and_status_in_each_connection(working: ServedRepository) -> None:
    await working.create("one")
    await working.act("one", "enqueue")
    await working.has_run("one")
    live = await working.events("one")
    kinds = {event["type"] for event in live}
    assert kinds == {"LOG", "PHASE", "STATUS", "DONE"}
    assert live[-1]["type"] == "DONE"
    assert live[-1]["pr_url"] == f"{WEB_URL}/compare/main...ai/one?expand=1"
    assert [event["phase"] for event in live if event["type"] == "PHASE"] == PHASES
    statuses = [event["status"] for event in live if event["type"] == "STATUS"]
    assert statuses[-1] == "done"
    assert all(event["ts"].endswith("+09:00") for event in live)
    lines = [event["line"] for event in live if event["type"] == "LOG"]
    written = await working.call("GET", "/requests/one/runs/001/artifacts/runner.log")
    assert lines == written.text.splitlines()
    again = await read_events(working.socket_url("/ws/requests/one/runs/001"))
    assert [event["line"] for event in again if event["type"] == "LOG"] == lines
    assert again[-1]["type"] == "DONE"


async def test_question_is_answered_and_the_answer_is_appended_once(working: ServedRepository) -> None:
    working.repository.script(planner=[{"question": QUESTION}, {}])
    await working.create("one")
    await working.act("one", "enqueue")
    asking = await working.reaches("one", "needs_input")
    assert asking["question"]["choices"] == ["ISO", "US"]
    assert "Which format?" in asking["question"]["text"]
    assert asking["blocked_reason"].startswith("Which format?")
    assert await working.error("POST", "/requests/one/enqueue") == (409, "ALREADY_RUNNING")
    # The worker is free for another request meanwhile.
    await working.create("other")
    await working.act("other", "enqueue")
    await working.reaches("other", "done")
    answer = {"answer": {"text": "ISO, please"}}
    resumed = await working.act("one", "resume", answer)
    assert resumed["status"] in ("queued", "running")
    assert resumed["question"] is None
    repeated = await working.act("one", "resume", answer)
    assert repeated["question"] is None
    done = await working.reaches("one", "done", "failed")
    assert done["failure_reason"] is None
    want = (await working.ok("GET", "/requests/one"))["content"]["sections"]["want"]
    assert want.count("### 回答 (") == 1
    assert want.endswith("ISO, please")


async def test_question_answered_in_the_inbox_is_appended_as_well(working: ServedRepository) -> None:
    working.repository.script(planner=[{"question": QUESTION}, {}])
    await working.create("one")
    await working.act("one", "enqueue")
    asking = await working.reaches("one", "needs_input")
    wait_id = asking["question"]["wait_id"]
    answered = await working.http.post(f"/waits/{wait_id}/respond", json={"payload": "US"})
    assert answered.status_code == 200
    await working.reaches("one", "done")
    want = (await working.ok("GET", "/requests/one"))["content"]["sections"]["want"]
    assert want.count("### 回答 (") == 1
    assert await working.error("POST", "/requests/one/resume", {"answer": {"text": "late"}}) == (
        409,
        "NOT_NEEDS_INPUT",
    )


async def test_stop_gives_up_on_a_question(working: ServedRepository) -> None:
    working.repository.script(planner=[{"question": QUESTION}])
    await working.create("one")
    await working.act("one", "enqueue")
    await working.reaches("one", "needs_input")
    await working.act("one", "stop")
    stopped = await working.reaches("one", "queued")
    assert (stopped["enqueued_at"], stopped["question"]) == (None, None)
    run = (await working.ok("GET", "/requests/one/runs/latest"))["run"]
    assert run["error"] is None
    assert run["ended_at"] is not None
    assert working.repository.header("one")["status"] == "queued"


async def test_work_before_a_question_that_is_given_up_is_saved_by_the_next_run(
    working: ServedRepository,
) -> None:
    working.repository.script(S01=[{"question": QUESTION, "write": {"half.txt": "half"}}, {}])
    await working.create("one")
    await working.act("one", "enqueue")
    await working.reaches("one", "needs_input")
    await working.act("one", "stop")
    failed = await working.reaches("one", "failed")
    assert failed["failure_reason"].startswith("WORK_NOT_SAVED: ")
    run = (await working.ok("GET", "/requests/one/runs/latest"))["run"]
    assert run["error"]["code"] == "WORK_NOT_SAVED"
    await working.act("one", "rerun")
    assert (await working.reaches("one", "done", "failed"))["failure_reason"] is None
    assert working.repository.subjects("ai/one", remote=True)[0].startswith("wip: ")
    assert git(working.repository.origin, "show", "ai/one:half.txt") == "half\n"


async def test_stop_saves_the_work_and_a_rerun_continues_the_branch(working: ServedRepository) -> None:
    working.repository.script(S02=[{"write": {"half.txt": "half"}, "hang": True}, {}])
    await working.create("one")
    await working.act("one", "enqueue")
    worktree = working.repository.settings.paths.worktree("one")
    await eventually((worktree / "half.txt").exists, describe="the step has begun")
    assert (await working.get("one"))["status"] == "running"
    assert (await working.act("one", "stop"))["stopping"] is True
    await working.reaches("one", "queued")
    subjects = working.repository.subjects("ai/one")
    assert subjects[0].startswith("feat: write file 1")
    assert subjects[-1].startswith("wip:")
    assert "half.txt" in git(working.repository.repo, "ls-tree", "--name-only", "ai/one").split()
    await working.act("one", "rerun")
    done = await working.reaches("one", "done", "failed")
    assert (done["status"], done["run_id"]) == ("done", "002")
    runs = (await working.ok("GET", "/requests/one/runs"))["items"]
    assert [(run["id"], run["status"]) for run in runs] == [("002", "done"), ("001", "queued")]
    # The socket of an earlier run ends with how that has ended.
    assert (await working.events("one", "001"))[-1]["status"] == "queued"
    assert working.repository.calls().count("S01") == 1


async def test_failure_is_shown_with_its_code(working: ServedRepository) -> None:
    working.repository.script(S01=[{"exit": 3}])
    await working.create("one")
    await working.act("one", "enqueue")
    failed = await working.reaches("one", "failed", "done")
    assert failed["failure_reason"].startswith("RETRY_EXCEEDED")
    run = (await working.ok("GET", "/requests/one/runs/latest"))["run"]
    assert run["error"]["code"] == "RETRY_EXCEEDED"
    done = (await working.events("one"))[-1]
    assert (done["type"], done["status"]) == ("DONE", "failed")
    assert done["failure_reason"].startswith("RETRY_EXCEEDED")


async def test_run_of_an_earlier_server_is_read_from_its_files(working: ServedRepository) -> None:
    await working.create("one")
    await working.act("one", "enqueue")
    await working.reaches("one", "done")

    async def is_noted() -> bool:
        stored = await working.queue.get("one")
        return stored is not None and stored.record.open_run is None

    await eventually(is_noted, describe="the end of the run is noted")
    await working.queue.remove("one", lambda record: None)
    request = await working.get("one")
    assert (request["status"], request["run_id"], request["pyoco_run_id"]) == ("done", "001", None)
    events = await working.events("one")
    assert events[0] == {"type": "LOG", "ts": events[0]["ts"], "line": "[RUN] started run_id=001"}
    assert [event["phase"] for event in events if event["type"] == "PHASE"] == PHASES
    assert (events[-1]["type"], events[-1]["status"]) == ("DONE", "done")


async def test_repeated_answer_does_not_answer_the_next_question(working: ServedRepository) -> None:
    questions = [{"question": {**QUESTION, "text": text}} for text in ("First?", "Second?")]
    working.repository.script(planner=[*questions, {}])
    await working.create("one")
    await working.act("one", "enqueue")

    async def asked(text: str) -> str | None:
        question = (await working.get("one"))["question"]
        return question["wait_id"] if question and text in question["text"] else None

    first = await eventually(lambda: asked("First?"), describe="the first question")
    answer = {"answer": {"text": "yes"}, "wait_id": first}
    await working.act("one", "resume", answer)
    second = await eventually(lambda: asked("Second?"), describe="the second question")
    repeated = await working.act("one", "resume", answer)
    assert repeated["question"]["wait_id"] == second
    late = {"answer": {"text": "no"}, "wait_id": first}
    response = await working.call("POST", "/requests/one/resume", late)
    assert (response.status_code, response.json()["error"]["code"]) == (409, "NOT_NEEDS_INPUT")
    assert second in response.json()["error"]["details"]["hint"]
    # The same text is the answer to the second question as well.
    await working.act("one", "resume", {"answer": {"text": "yes"}, "wait_id": second})
    done = await working.reaches("one", "done", "failed")
    assert done["failure_reason"] is None
    want = (await working.ok("GET", "/requests/one"))["content"]["sections"]["want"]
    assert want.count("### 回答 (") == 2
    marks = [line for line in want.splitlines() if line.startswith("<!--")]
    assert marks == [f"<!-- aiflow-answer: 001 plan question-{number} -->" for number in (1, 2)]
    run = (await working.ok("GET", "/requests/one/runs/latest"))["run"]
    assert (run["error"], "errors.json" in run["files"]) == (None, False)
