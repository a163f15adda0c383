"""`pyoco-server agent` with its worker, and `pyoco-client requests` against it."""

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyoco_server.http_client import PyocoHttpClient, PyocoHttpError
from tests.support.agent.repository import WEB_URL, AgentRepository, git
from tests.support.commands import ClientCommand, call_command
from tests.support.processes import find_processes
from tests.support.programs import SERVER, Program, forked_stack
from tests.support.waiting import LIMIT_SEC, eventually_sync

QUESTION = {"text": "Which format?", "why": "there are two", "format": "ISO or US", "choices": ["ISO", "US"]}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> AgentRepository:
    return AgentRepository(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="module")
def program(repository: AgentRepository, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """`pyoco-server agent`, started in another folder than the repository."""
    folder = tmp_path_factory.mktemp("elsewhere")
    arguments = ("agent", "--repo", str(repository.repo), "--port", "0", "--nats-port", "0")
    with forked_stack(*arguments, cwd=folder, HOME=str(folder), LANG="C.UTF-8") as found:
        found.writes("Press Ctrl-C to stop everything.")
        yield found


@pytest.fixture(scope="module")
def server(program: Program) -> str:
    found = re.search(r"Gateway\s+(http://\S+)", program.stdout)
    assert found is not None, program.stdout
    return found[1]


@pytest.fixture(scope="module")
def requests(server: str) -> ClientCommand:
    return ClientCommand(server)


@pytest.fixture(scope="module")
def api(server: str) -> Iterator[PyocoHttpClient]:
    with PyocoHttpClient(server, timeout=LIMIT_SEC) as client:
        yield client


def reaches(api: PyocoHttpClient, request_id: str, *statuses: str) -> None:
    eventually_sync(
        lambda: api.get_request(request_id)["request"]["status"] in statuses,
        describe=f"{request_id} is {' or '.join(statuses)}",
    )


def test_agent_says_where_everything_is(program: Program, repository: AgentRepository, server: str) -> None:
    text = program.stdout
    assert f"{server}/#/requests" in text
    assert str(repository.repo) in text
    assert "agent_request" in text
    assert "requests doctor" in text
    assert (repository.repo / ".aiflow" / "server" / "nats").is_dir()
    # What it writes is not a change of the repository.
    assert git(repository.repo, "status", "--porcelain").strip() in ("", "?? requests/")


def test_doctor_finds_everything_in_place(requests: ClientCommand) -> None:
    done = requests("requests", "doctor", "--output", "table")
    assert done.returncode == 0, done.stdout
    assert "ai_cli" in done.stdout
    assert "failed" not in done.stdout


def test_request_from_its_creation_to_its_pull_request(
    requests: ClientCommand, api: PyocoHttpClient, tmp_path: Path
) -> None:
    want = tmp_path / "want.md"
    want.write_text("Three files\n\n## With a heading\n", encoding="utf-8")
    arguments = ("create", "Write <b>three</b> files", "--want-file", str(want), "--priority", "P1")
    created = requests.json("requests", *arguments, "--tag", "files", "--id", "cycle", "--enqueue")
    assert (created["id"], created["status"], created["priority"]) == ("cycle", "queued", "P1")
    eventually_sync(
        lambda: api.get_request("cycle")["request"]["run_id"] == "001", describe="the run has begun"
    )
    followed = requests("requests", "logs", "cycle", "--follow")
    assert followed.returncode == 0, followed.stderr
    assert "[PHASE] implementing" in followed.stdout
    assert "The request is done." in followed.stderr
    assert "\x1b" not in followed.stdout
    shown = requests("requests", "show", "cycle", "--output", "table").stdout
    for text in ("Write <b>three</b> files", "done", "Want", "Plan", "Report", "#### S01"):
        assert text in shown
    assert f"{WEB_URL}/compare/main...ai/cycle" in shown.replace("\n", "")
    log = requests("requests", "logs", "cycle").stdout
    assert log.startswith("[RUN] started run_id=001\n")
    assert json.loads(requests("requests", "logs", "cycle", "--run", "001", "--file", "plan.json").stdout)
    raw = requests("requests", "show", "cycle", "--raw").stdout
    assert raw.startswith("---\nid: cycle\n")
    listed = requests("requests", "list", "--status", "done", "--output", "table").stdout
    assert "cycle" in listed
    assert requests.json("requests", "list", "--search", "no such text") == []


def test_question_is_shown_and_answered(
    requests: ClientCommand, api: PyocoHttpClient, repository: AgentRepository
) -> None:
    repository.script(planner=[{"question": QUESTION}])
    try:
        requests.json("requests", "create", "Ask", "--want", "x", "--id", "asking", "--enqueue")
        reaches(api, "asking", "needs_input")
        shown = requests("requests", "show", "asking", "--output", "table").stdout
        assert "Which format?" in shown
        refused = requests("requests", "resume", "asking")
        assert refused.returncode == 1
        assert "--answer" in refused.stderr
        repository.script()
        resumed = requests("requests", "resume", "asking", "--answer", "-", stdin="ISO\n")
        assert resumed.returncode == 0, resumed.stderr
        reaches(api, "asking", "done")
        assert "ISO" in (api.get_request("asking")["content"]["sections"]["want"] or "")
    finally:
        (repository.cli / "script.json").unlink()


def test_stop_and_rerun(requests: ClientCommand, api: PyocoHttpClient, repository: AgentRepository) -> None:
    repository.script(S01=[{"write": {"half.txt": "half"}, "hang": True}])
    try:
        requests.json("requests", "create", "Stop", "--want", "x", "--id", "stopped", "--enqueue")
        half = repository.settings.paths.worktree("stopped") / "half.txt"
        eventually_sync(half.exists, describe="the step has begun")
        stopped = requests.json("requests", "stop", "stopped")
        assert stopped["stopping"] is True
        reaches(api, "stopped", "queued")
        shown = requests("requests", "list", "--status", "queued", "--output", "table").stdout
        assert "not in the queue" in shown
        repository.script()
        assert requests.json("requests", "rerun", "stopped")["status"] == "queued"
        reaches(api, "stopped", "done")
        assert [run["id"] for run in api.list_request_runs("stopped")["items"]] == ["002", "001"]
    finally:
        (repository.cli / "script.json").unlink()


def test_killed_gateway_continues_what_was_decided(
    requests: ClientCommand, api: PyocoHttpClient, server: str, program: Program
) -> None:
    for name in ("killed-1", "killed-2"):
        requests.json("requests", "create", name, "--want", "x", "--id", name, "--enqueue")
    port = server.rpartition(":")[2]
    guards = find_processes("server_guard", port)
    (gateway,) = [pid for pid in find_processes("server_command", port) if pid not in guards]
    os.kill(gateway, signal.SIGKILL)
    program.writes("The gateway is running again.")
    for name in ("killed-1", "killed-2"):
        reaches(api, name, "done")
        assert [run["id"] for run in api.list_request_runs(name)["items"]] == ["001"]


def test_refusal_has_the_code_and_the_cure(requests: ClientCommand, api: PyocoHttpClient) -> None:
    refused = requests("requests", "stop", "nothing-of-this-name")
    assert refused.returncode == 1
    assert "REQUEST_NOT_FOUND There is no request 'nothing-of-this-name'." in refused.stderr
    assert "pyoco-client requests list" in refused.stderr
    with pytest.raises(PyocoHttpError) as error:
        api.create_request("x", priority="P9")
    assert (error.value.word, error.value.code, error.value.status) == (
        "INVALID_PRIORITY",
        "INVALID_PRIORITY",
        400,
    )
    assert "Use one of P0, P1, P2, P3." in error.value.detail


def test_client_edits_reads_and_deletes(api: PyocoHttpClient) -> None:
    api.create_request("Edited", "before", request_id="edited", tags=["a"])
    changed = api.update_request("edited", title="Renamed", priority="P3", tags=[], want="after")["request"]
    assert (changed["title"], changed["priority"], changed["tags"]) == ("Renamed", "P3", [])
    assert "# 要望\n\nafter\n" in api.raw_request("edited")
    assert [item["id"] for item in api.list_requests(q="renamed", status=["queued"])["items"]] == ["edited"]
    assert api.delete_request("edited") is True
    with pytest.raises(PyocoHttpError, match="REQUEST_NOT_FOUND"):
        api.get_request("edited")


def test_update_changes_what_is_given(requests: ClientCommand, api: PyocoHttpClient) -> None:
    api.create_request("Before", "Old text", request_id="updated", tags=["a"])
    changed = requests.json("requests", "update", "updated", "--priority", "P0")
    assert (changed["title"], changed["priority"], changed["tags"]) == ("Before", "P0", ["a"])
    changed = requests.json("requests", "update", "updated", "--title", "After", "--tag", "b", "--tag", "c")
    assert (changed["title"], changed["priority"], changed["tags"]) == ("After", "P0", ["b", "c"])
    done = requests("requests", "update", "updated", "--no-tags", "--want-file", "-", stdin="New text\n")
    assert done.returncode == 0, done.stderr
    detail = api.get_request("updated")
    assert (detail["request"]["tags"], detail["content"]["sections"]["want"]) == ([], "New text")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "say what changes: --title, --priority"),
        (("--tag", "a", "--no-tags"), "either --tag or --no-tags"),
        (("--want", "a", "--want-file", "b"), "either --want or --want-file"),
        (("--priority", "P9"), "INVALID_PRIORITY"),
        (("--title", " "), "title"),
    ],
    ids=str,
)
def test_wrong_update_changes_nothing(
    requests: ClientCommand, api: PyocoHttpClient, arguments: tuple[str, ...], said: str
) -> None:
    request_id = api.create_request("Stays", "as it is")["request"]["id"]
    before = api.raw_request(request_id)
    refused = requests("requests", "update", request_id, *arguments)
    assert refused.returncode == 1
    assert said in refused.stderr
    assert api.raw_request(request_id) == before


def test_delete_removes_a_request_that_is_not_executed(
    requests: ClientCommand, api: PyocoHttpClient, repository: AgentRepository
) -> None:
    repository.script(S01=[{"hang": True}])
    try:
        requests.json("requests", "create", "Delete", "--want", "x", "--id", "deleted", "--enqueue")
        reaches(api, "deleted", "running")
        refused = requests("requests", "delete", "deleted")
        assert refused.returncode == 1
        assert "ALREADY_RUNNING" in refused.stderr
        assert "Stop it first." in refused.stderr
        requests.json("requests", "stop", "deleted")
        reaches(api, "deleted", "queued")
    finally:
        (repository.cli / "script.json").unlink()
    assert requests.json("requests", "delete", "deleted") == {"id": "deleted", "deleted": True}
    assert not repository.settings.paths.requests.file_of("deleted").exists()
    again = requests("requests", "delete", "deleted")
    assert again.returncode == 1
    assert "REQUEST_NOT_FOUND" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--repo", "{empty}"), "is not a git repository"),
        (("--repo", "{empty}/nowhere"), "is not a folder"),
        (("--repo", "{repo}", "--host", "0.0.0.0"), "Require API keys"),
        (
            ("--repo", "{repo}", "--nats-url", "nats://x:1", "--nats-port", "1"),
            "use either it or --nats-port",
        ),
        (("--repo", "{repo}", "--base-branch", "a b"), "git.baseBranchDefault"),
        (("--repo", "{repo}", "--runs-dir", "README.md"), "README.md cannot be written: File exists"),
    ],
)
def test_wrong_options_of_agent_start_nothing(
    repository: AgentRepository, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    given = [each.format(empty=tmp_path, repo=repository.repo) for each in arguments]
    done = call_command(SERVER, "agent", *given)
    assert done.returncode == 1, done.stderr
    assert said in done.stderr


def test_agent_with_api_keys_needs_the_tenant_of_the_repository(repository: AgentRepository) -> None:
    done = call_command(
        SERVER,
        *("agent", "--repo", str(repository.repo), "--host", "0.0.0.0"),
        PYOCO_HTTP_AUTH_MODE="api_key",
    )
    assert done.returncode == 1
    assert "PYOCO_AGENT_TENANT" in done.stderr


def test_agent_with_api_keys_says_how_to_create_the_first_one(tmp_path: Path) -> None:
    repository = AgentRepository(tmp_path / "keyed")
    arguments = ("agent", "--repo", str(repository.repo), "--port", "0", "--nats-port", "0")
    keys = {"PYOCO_HTTP_AUTH_MODE": "api_key", "PYOCO_AGENT_TENANT": "acme"}
    with forked_stack(*arguments, cwd=tmp_path, HOME=str(tmp_path), LANG="C.UTF-8", **keys) as found:
        found.writes("Press Ctrl-C to stop everything.")
        shown = " ".join(found.stdout.split())
    assert "api-key create --tenant acme --nats-url nats://127.0.0.1:" in shown
