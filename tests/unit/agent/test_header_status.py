"""The state of a run as fields of its request."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from pyoco_server.agent.agent_errors import AgentCode, AgentError
from pyoco_server.agent.agent_settings import AgentSettings, load_settings
from pyoco_server.agent.header_status import AgentRunFacts, header_status_of, write_run_state
from pyoco_server.agent.request_file import RequestStatus
from pyoco_server.agent.request_folder import NewRequest
from pyoco_server.agent.run_files import RunFiles, Stage, run_numbers
from pyoco_server.records.runs.run_models import RunStatus

NOW = datetime(2026, 11, 17, 12, 30, tzinfo=UTC)


def stage(**fields: object) -> Stage:
    return Stage(request_id="x", run_id="001", branch="ai/x", phase="testing", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("facts", "known", "status"),
    [
        (AgentRunFacts(status=RunStatus.PENDING), None, "queued"),
        (AgentRunFacts(status=RunStatus.SCHEDULED), None, "queued"),
        (AgentRunFacts(status=RunStatus.RUNNING), stage(), "running"),
        (AgentRunFacts(status=RunStatus.WAITING), stage(), "running"),
        (AgentRunFacts(status=RunStatus.WAITING_HUMAN, question="Why?"), stage(), "needs_input"),
        (AgentRunFacts(status=RunStatus.COMPLETED), stage(pr_url="https://x"), "done"),
        (AgentRunFacts(status=RunStatus.COMPLETED), stage(), "failed"),
        (AgentRunFacts(status=RunStatus.FAILED, error="boom"), None, "failed"),
        (AgentRunFacts(status=RunStatus.CANCELLED), None, "queued"),
        (AgentRunFacts(status=RunStatus.CANCELLED), stage(work_saved=True), "queued"),
        (AgentRunFacts(status=RunStatus.CANCELLED), stage(), "failed"),
        (AgentRunFacts(status=RunStatus.CANCELLED, work_saved=True), stage(), "queued"),
        (AgentRunFacts(status=RunStatus.CANCELLED, work_saved=False), stage(work_saved=True), "failed"),
    ],
)
def test_status_of_a_request(facts: AgentRunFacts, known: Stage | None, status: str) -> None:
    assert header_status_of(facts, known).status == status


def test_every_state_of_a_run_has_a_status() -> None:
    assert {header_status_of(AgentRunFacts(status=status), None).status for status in RunStatus} <= set(
        RequestStatus
    )


def test_reason_of_the_flow_comes_before_that_of_the_run() -> None:
    facts = AgentRunFacts(status=RunStatus.FAILED, error="task plan: AgentError")
    assert (
        header_status_of(facts, stage(failure_reason="PLAN_INVALID: x")).failure_reason == "PLAN_INVALID: x"
    )
    assert header_status_of(facts, stage()).failure_reason == "task plan: AgentError"


def test_reason_of_a_run_that_wrote_none_begins_with_its_code() -> None:
    error = "task preflight: AgentError: LOCK_HELD: /repo is in use."
    facts = AgentRunFacts(status=RunStatus.FAILED, error=error)
    assert header_status_of(facts, None).failure_reason == "LOCK_HELD: /repo is in use."


@pytest.fixture
def settings(tmp_path: Path) -> AgentSettings:
    settings = load_settings(tmp_path, environ={})
    settings.paths.prepare()
    settings.paths.requests.create(NewRequest(title="T", base="main", request_id="x"), NOW)
    return settings


def test_run_that_was_killed_is_projected_into_its_files(settings: AgentSettings) -> None:
    files = RunFiles(settings.paths, "x", "001")
    files.create()
    files.write_stage(stage(attempt=3))
    facts = AgentRunFacts(status=RunStatus.FAILED, error="the worker died five times")
    file = write_run_state(settings, "x", "001", facts, NOW)
    assert (file.status, file.run_number, file.attempt) == (RequestStatus.FAILED, "001", 3)
    assert file.text("failure_reason") == "the worker died five times"
    assert files.stage() == stage(
        attempt=3, status="failed", failure_reason="the worker died five times",
        updated_at=NOW.isoformat(), ended_at=NOW.isoformat(),
    )  # fmt: skip
    assert files.errors()["code"] == "INTERNAL_ERROR"


def test_projecting_again_writes_nothing(settings: AgentSettings) -> None:
    facts = AgentRunFacts(status=RunStatus.CANCELLED)
    write_run_state(settings, "x", "001", facts, NOW)
    before = settings.paths.requests.file_of("x").stat()
    write_run_state(settings, "x", "001", facts, datetime.now(UTC))
    assert settings.paths.requests.file_of("x").stat().st_ino == before.st_ino


def test_earlier_run_does_not_overwrite_a_later_one(settings: AgentSettings) -> None:
    write_run_state(settings, "x", "002", AgentRunFacts(status=RunStatus.RUNNING), NOW)
    file = write_run_state(settings, "x", "001", AgentRunFacts(status=RunStatus.FAILED, error="late"), NOW)
    assert (file.status, file.run_number) == (RequestStatus.RUNNING, "002")


def test_broken_stage_is_read_as_missing(settings: AgentSettings) -> None:
    files = RunFiles(settings.paths, "x", "001")
    files.create()
    for text in ("{", "[]", '{"request_id": "x"}'):
        (files.path / "stage.json").write_text(text)
        assert files.stage() is None
    assert run_numbers(settings.paths, "x") == ["001"]


@pytest.mark.parametrize("name", ["../../secret", "stage.json/..", "", ".hidden", "a/b", "link", "missing"])
def test_artifacts_outside_the_folder_are_not_found(settings: AgentSettings, name: str) -> None:
    files = RunFiles(settings.paths, "x", "001")
    files.create()
    (files.path / "link").symlink_to("/etc/passwd")
    with pytest.raises(Exception, match="ARTIFACT_NOT_FOUND"):
        files.open_artifact(name)


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        (AgentRunFacts(status=RunStatus.RUNNING), None),
        (AgentRunFacts(status=RunStatus.CANCELLED, work_saved=True), None),
        (AgentRunFacts(status=RunStatus.CANCELLED, work_saved=False), "WORK_NOT_SAVED"),
        (
            AgentRunFacts(status=RunStatus.FAILED, error="task plan: AgentError: LOCK_HELD: in use"),
            "LOCK_HELD",
        ),
        (AgentRunFacts(status=RunStatus.FAILED, error="died"), "INTERNAL_ERROR"),
        (AgentRunFacts(status=RunStatus.WAITING_HUMAN), "AMBIGUOUS_REQUIREMENT"),
    ],
)
def test_error_of_a_question_ends_with_the_question(
    settings: AgentSettings, facts: AgentRunFacts, code: str | None
) -> None:
    files = RunFiles(settings.paths, "x", "001")
    files.create()
    files.write_stage(stage(status="needs_input"))
    files.write_error(AgentError(AgentCode.AMBIGUOUS_REQUIREMENT, "Which?"))
    write_run_state(settings, "x", "001", facts, NOW)
    assert (files.errors() or {}).get("code") == code
    ended = files.stage()
    assert ended is not None
    assert (ended.ended_at is not None) == facts.status.terminal


@pytest.mark.parametrize("status", [RunStatus.PENDING, RunStatus.WAITING_HUMAN])
def test_state_before_a_run_has_begun_does_not_overwrite_what_its_flow_has_written(
    settings: AgentSettings, status: RunStatus
) -> None:
    """A gateway may read the run, and write to the file after the worker has."""
    files = RunFiles(settings.paths, "x", "001")
    files.create()
    files.write_stage(stage())
    begun = {"status": "running", "run_id": "001"}
    settings.paths.requests.change("x", lambda file: file.changed(begun))
    late = write_run_state(settings, "x", "001", AgentRunFacts(status=status), NOW)
    assert (late.status, files.stage()) == ("running", stage())
    after = write_run_state(settings, "x", "002", AgentRunFacts(status=status), NOW)
    assert after.status != "running"


def test_question_whose_flow_could_not_write_the_file_is_written(settings: AgentSettings) -> None:
    files = RunFiles(settings.paths, "x", "001")
    files.create()
    files.write_stage(stage(status="needs_input", blocked_reason="Which?"))
    settings.paths.requests.change("x", lambda file: file.changed({"status": "running", "run_id": "001"}))
    file = write_run_state(settings, "x", "001", AgentRunFacts(status=RunStatus.WAITING_HUMAN), NOW)
    assert (file.status, file.text("blocked_reason")) == ("needs_input", "Which?")
