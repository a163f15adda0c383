"""The endpoints of agent requests without a worker: files, refusals, the error form."""

import errno
import json
import os
import re
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from pyoco_server.config import NatsBackendConfig
from tests.support.agent.repository import AgentRepository, git
from tests.support.agent.served_repository import API, ServedRepository, serving
from tests.support.running.gateway import RunningGateway

FIELDS = {
    "id", "title", "priority", "status", "base", "branch", "tags", "created_at", "updated_at", "run_id",
    "phase", "attempt", "blocked_reason", "failure_reason", "pr_url", "last_commit", "paths",
}  # fmt: skip


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(
    shared_config: NatsBackendConfig, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ServedRepository]:
    """For tests that start nothing and leave the repository as it is, but for requests of their own."""
    repository = AgentRepository(tmp_path_factory.mktemp("shared-repository"))
    async with serving(shared_config, repository) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def own(config: NatsBackendConfig, repository: AgentRepository) -> AsyncIterator[ServedRepository]:
    async with serving(config, repository) as found:
        yield found


def text_of(served: ServedRepository, request_id: str) -> str:
    return (served.repository.repo / "requests" / f"{request_id}.md").read_text(encoding="utf-8")


async def has_known(served: ServedRepository) -> None:
    """There is a request `known`, which no test changes."""
    if not (await served.call("GET", "/requests/known")).is_success:
        await served.create("known")


async def test_created_request_is_a_file_with_header_and_sections(served: ServedRepository) -> None:
    body = {
        "title": "ログイン放置後のタイムアウト改善",
        "priority": "P0",
        "tags": ["auth"],
        "want": {"text": "要望"},
    }
    response = await served.call("POST", "/requests", body)
    assert response.status_code == 201, response.text
    request = response.json()["request"]
    assert set(request) >= FIELDS
    assert response.headers["Location"] == f"{API}/requests/{request['id']}"
    assert (request["status"], request["priority"], request["base"]) == ("queued", "P0", "main")
    assert request["branch"] == f"ai/{request['id']}"
    assert request["created_at"].endswith("+09:00")
    assert request["paths"] == {"request_file": f"requests/{request['id']}.md", "run_dir": None}
    assert (request["run_id"], request["enqueued_at"], request["pyoco_run_id"]) == (None, None, None)
    text = text_of(served, request["id"])
    assert text.index("# 要望\n\n要望\n") < text.index("## Plan") < text.index("## Report")
    assert "priority: P0\nstatus: queued\n" in text


async def test_created_request_with_an_id_of_its_own(served: ServedRepository) -> None:
    await served.create("20251214-login-timeout", branch="ai/login", base="develop", priority="P1")
    request = await served.get("20251214-login-timeout")
    assert (request["branch"], request["base"], request["priority"]) == ("ai/login", "develop", "P1")


@pytest.mark.parametrize(
    ("body", "code", "status"),
    [
        ({"title": "x", "priority": "P9"}, "INVALID_PRIORITY", 400),
        ({"title": "x", "priority": 1}, "INVALID_PRIORITY", 400),
        ({"title": ""}, "INVALID_REQUEST", 400),
        ({"title": " \n "}, "INVALID_REQUEST", 400),
        ({"title": "x" * 201}, "INVALID_REQUEST", 400),
        ({}, "INVALID_REQUEST", 400),
        ({"titel": "x"}, "INVALID_REQUEST", 400),
        ({"title": "x", "want": "not an object"}, "INVALID_REQUEST", 400),
        ({"title": "x", "id": "../x"}, "INVALID_REQUEST", 400),
        ({"title": "x", "id": "a/b"}, "INVALID_REQUEST", 400),
        ({"title": "x", "id": "UPPER"}, "INVALID_REQUEST", 400),
        ({"title": "x", "id": "known"}, "FILE_ALREADY_EXISTS", 409),
    ],
)
async def test_invalid_request_is_refused_and_nothing_is_written(
    served: ServedRepository, body: dict[str, Any], code: str, status: int
) -> None:
    await has_known(served)
    before = sorted(served.repository.repo.rglob("*.md"))
    assert await served.error("POST", "/requests", body) == (status, code)
    assert sorted(served.repository.repo.rglob("*.md")) == before


async def test_refusal_names_field_value_and_cure(served: ServedRepository) -> None:
    response = await served.call("POST", "/requests", {"title": "x", "priority": "P9"})
    error = response.json()["error"]
    assert error["message"] == "priority='P9' is not a priority."
    assert error["details"]["hint"] == "Use one of P0, P1, P2, P3."
    assert response.headers["content-type"] == "application/json; charset=utf-8"


async def test_list_is_filtered_and_sorted(own: ServedRepository) -> None:
    for name, priority in (("low", "P3"), ("high", "P0"), ("mid", "P1")):
        await own.create(name, priority=priority, title=f"Title of {name}")
    listed = [each["id"] for each in (await own.ok("GET", "/requests"))["items"]]
    assert listed == ["high", "mid", "low"]
    ascending = (await own.ok("GET", "/requests?sort=priority_asc"))["items"]
    assert [each["id"] for each in ascending] == ["low", "mid", "high"]
    assert [each["id"] for each in (await own.ok("GET", "/requests?q=OF+MID"))["items"]] == ["mid"]
    assert (await own.ok("GET", "/requests?status=running,done"))["items"] == []
    assert len((await own.ok("GET", "/requests?status=queued,done"))["items"]) == 3
    assert await own.error("GET", "/requests?status=queued,bogus") == (400, "INVALID_STATUS")
    assert await own.error("GET", "/requests?sort=bogus") == (400, "INVALID_REQUEST")
    assert await own.error("GET", "/requests?sort=priority_desc,bogus") == (400, "INVALID_REQUEST")
    # As the contract writes it.
    both = (await own.ok("GET", "/requests?sort=priority_desc,updated_desc"))["items"]
    assert [each["id"] for each in both] == listed


async def test_list_is_sorted_by_the_second_order_where_the_first_is_equal(own: ServedRepository) -> None:
    for name, priority, day in (("a", "P1", 3), ("b", "P1", 1), ("c", "P0", 2), ("d", "P1", 2)):
        await own.create(name, priority=priority)
        path = own.repository.repo / "requests" / f"{name}.md"
        text = path.read_text(encoding="utf-8")
        path.write_text(re.sub("created_at: .*", f"created_at: 2026-01-0{day}T00:00:00+09:00", text))

    async def order(sort: str) -> str:
        return "".join(each["id"] for each in (await own.ok("GET", f"/requests?sort={sort}"))["items"])

    assert await order("priority_desc,created_asc") == "cbda"
    assert await order("priority_asc,created_desc") == "adbc"
    assert await order("created_desc,priority_asc") == "adcb"
    assert await own.error("GET", "/requests?bogus=1") == (400, "INVALID_REQUEST")


async def test_read_has_raw_text_and_sections(served: ServedRepository) -> None:
    await served.create("read", want={"text": "Some **want**\n\n## A heading of its own"})
    found = await served.ok("GET", "/requests/read")
    sections = found["content"]["sections"]
    assert sections == {"want": "Some **want**\n\n## A heading of its own", "plan": "", "report": ""}
    assert found["content"]["raw_md"] == text_of(served, "read")
    raw = await served.call("GET", "/requests/read/raw")
    assert raw.headers["content-type"] == "text/markdown; charset=utf-8"
    assert raw.text == text_of(served, "read")


async def test_broken_header_still_has_its_raw_text(own: ServedRepository) -> None:
    await own.create("one")
    path = own.repository.repo / "requests" / "one.md"
    path.write_text("---\ntitle: [broken\n---\n\n# 要望\n\nStill here\n", encoding="utf-8")
    found = await own.ok("GET", "/requests/one")
    assert "Still here" in found["content"]["raw_md"]
    assert found["content"]["sections"]["want"] == "Still here"
    assert found["request"]["title"] == "one"
    assert "not valid YAML" in found["request"]["problems"][0]
    assert [each["id"] for each in (await own.ok("GET", "/requests"))["items"]] == ["one"]
    assert await own.error("PATCH", "/requests/one", {"title": "New"}) == (409, "REQUEST_UNREADABLE")
    assert await own.error("POST", "/requests/one/enqueue") == (409, "REQUEST_UNREADABLE")


@pytest.mark.parametrize("request_id", ["nope", "UPPER", "..", "%2e%2e", "a.b", "a%00b", "-x", "x" * 200])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("PATCH", ""),
        ("DELETE", ""),
        ("GET", "/raw"),
        ("GET", "/runs"),
        ("GET", "/runs/latest"),
        ("GET", "/runs/001/artifacts/runner.log"),
        ("POST", "/enqueue"),
        ("POST", "/stop"),
        ("POST", "/rerun"),
        ("POST", "/resume"),
    ],
)
async def test_what_is_no_request_is_not_found(
    served: ServedRepository, request_id: str, method: str, path: str
) -> None:
    bodies: dict[tuple[str, str], Any] = {
        ("PATCH", ""): {"title": "x"},
        ("POST", "/resume"): {"answer": {"text": "x"}},
    }
    status, code = await served.error(method, f"/requests/{request_id}{path}", bodies.get((method, path)))
    # A path with `..` is another path for the client.
    assert (status, code) in {(404, "REQUEST_NOT_FOUND"), (404, "NOT_FOUND"), (405, "METHOD_NOT_ALLOWED")}
    if request_id not in ("..", "%2e%2e"):
        assert code == "REQUEST_NOT_FOUND"


async def test_edit_keeps_what_it_does_not_name(served: ServedRepository) -> None:
    await served.create("edited", tags=["a"])
    path = served.repository.repo / "requests" / "edited.md"
    by_hand = path.read_text(encoding="utf-8").replace("priority:", "# a comment\nowner: Ada\npriority:")
    path.write_text(by_hand.replace("## Plan", "## Plan\n\nA note of a person"), encoding="utf-8")
    changed = await served.ok(
        "PATCH", "/requests/edited", {"title": "New", "priority": "P1", "tags": ["b"], "want": {"text": "W2"}}
    )
    request = changed["request"]
    assert (request["title"], request["priority"], request["tags"]) == ("New", "P1", ["b"])
    text = text_of(served, "edited")
    assert "# a comment\nowner: Ada\n" in text
    assert "A note of a person" in text
    assert "# 要望\n\nW2\n" in text
    assert (await served.ok("PATCH", "/requests/edited", {"tags": []}))["request"]["tags"] == []


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "INVALID_REQUEST"),
        ({"plan": "x"}, "INVALID_REQUEST"),
        ({"status": "done"}, "INVALID_REQUEST"),
        ({"priority": "high"}, "INVALID_PRIORITY"),
        ({"title": None}, "INVALID_REQUEST"),
    ],
)
async def test_refused_edit_changes_nothing(
    served: ServedRepository, body: dict[str, Any], code: str
) -> None:
    await has_known(served)
    before = text_of(served, "known")
    assert await served.error("PATCH", "/requests/known", body) == (400, code)
    assert text_of(served, "known") == before


async def test_delete_removes_the_file_and_its_place_in_the_queue(own: ServedRepository) -> None:
    await own.create("first")
    await own.create("second")
    await own.act("first", "enqueue")
    await own.has_run("first")
    await own.act("second", "enqueue")
    assert (await own.call("DELETE", "/requests/second")).status_code == 204
    assert await own.error("GET", "/requests/second") == (404, "REQUEST_NOT_FOUND")
    assert await own.queue.get("second") is None
    assert await own.error("DELETE", "/requests/first") == (409, "ALREADY_RUNNING")


def dirty(repo: Path) -> None:
    (repo / "README.md").write_text("changed\n")


def without_origin(repo: Path) -> None:
    git(repo, "remote", "remove", "origin")


def broken_origin(repo: Path) -> None:
    git(repo, "remote", "set-url", "origin", str(repo / "nowhere"))


def untrusted(repo: Path) -> None:
    git(repo, "config", "filter.x.clean", "rm -rf /")


def broken_index(repo: Path) -> None:
    (repo / ".git" / "index").write_bytes(b"not an index")


def file_for_runs(repo: Path) -> None:
    # Nobody can create something in it, also not root.
    shutil.rmtree(repo / "runs", ignore_errors=True)
    (repo / "runs").write_text("")


async def test_file_that_cannot_be_written_is_named_with_its_cure(
    own: ServedRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    await own.create("one")
    monkeypatch.setattr(tempfile, "mkstemp", full_disk)
    for method, path, body in (
        ("POST", "/requests", {"title": "x"}),
        ("PATCH", "/requests/one", {"title": "New"}),
    ):
        response = await own.call(method, path, body)
        error = response.json()["error"]
        assert (response.status_code, error["code"]) == (409, "FILE_NOT_WRITABLE")
        assert "cannot be written: No space left on device." in error["message"]
        assert error["details"]["hint"] == "Free some space on that disk."


async def test_file_that_cannot_be_written_does_not_stop_its_request(
    own: ServedRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    await own.create("one")
    path = own.repository.repo / "requests" / "one.md"
    failed = path.read_text(encoding="utf-8").replace("status: queued", "status: failed")
    path.write_text(failed)
    monkeypatch.setattr(tempfile, "mkstemp", full_disk)
    assert (await own.act("one", "enqueue"))["status"] == "queued"
    await own.has_run("one")
    assert path.read_text(encoding="utf-8") == failed


def full_disk(**_: object) -> tuple[int, str]:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


async def test_branch_that_no_run_may_use_is_refused_again(served: ServedRepository) -> None:
    await served.create("unusable-branch")
    path = served.repository.repo / "requests" / "unusable-branch.md"
    path.write_text(path.read_text(encoding="utf-8").replace("branch: ai/unusable-branch", "branch: main"))
    for action in ("enqueue", "rerun"):
        assert await served.error("POST", f"/requests/unusable-branch/{action}") == (400, "INVALID_REQUEST")


@pytest.mark.parametrize(
    ("spoil", "fields", "code"),
    [
        (dirty, {}, "WORKTREE_DIRTY"),
        (without_origin, {}, "REMOTE_ORIGIN_MISSING"),
        (broken_origin, {}, "REMOTE_ORIGIN_MISSING"),
        (untrusted, {}, "GIT_CONFIG_UNTRUSTED"),
        (broken_index, {}, "COMMAND_FAILED"),
        (file_for_runs, {}, "FILE_NOT_WRITABLE"),
        (lambda repo: None, {"base": "nope"}, "BASE_BRANCH_NOT_FOUND"),
    ],
)
async def test_fault_of_the_repository_is_a_conflict_that_changes_nothing(
    own: ServedRepository, spoil: Any, fields: dict[str, Any], code: str
) -> None:
    await own.create("one", **fields)
    spoil(own.repository.repo)
    before = text_of(own, "one")
    for action in ("enqueue", "rerun"):
        response = await own.call("POST", f"/requests/one/{action}")
        assert (response.status_code, response.json()["error"]["code"]) == (409, code), action
        assert response.json()["error"]["details"]["hint"]
        assert text_of(own, "one") == before
        assert await own.queue.get("one") is None
        assert (await own.get("one"))["enqueued_at"] is None


async def test_a_request_that_never_ran_can_neither_stop_nor_resume(served: ServedRepository) -> None:
    await served.create("never-ran")
    assert await served.error("POST", "/requests/never-ran/stop") == (409, "NOT_RUNNING")
    answer = {"answer": {"text": "x"}}
    assert await served.error("POST", "/requests/never-ran/resume", answer) == (409, "NOT_NEEDS_INPUT")
    assert await served.error("POST", "/requests/never-ran/resume", {"answer": {"text": " "}}) == (
        400,
        "INVALID_REQUEST",
    )
    assert await served.error("GET", "/requests/never-ran/runs/latest") == (404, "RUN_NOT_FOUND")
    assert (await served.ok("GET", "/requests/never-ran/runs"))["items"] == []
    artifact = "/requests/never-ran/runs/001/artifacts/runner.log"
    assert await served.error("GET", artifact) == (404, "RUN_NOT_FOUND")
    assert await served.error("POST", "/requests/never-ran/enqueue", {"mode": "fast"}) == (
        400,
        "INVALID_REQUEST",
    )


async def test_doctor_reports_each_check_with_its_cure(own: ServedRepository) -> None:
    git(own.repository.repo, "remote", "remove", "origin")
    checks = {each["name"]: each for each in (await own.ok("POST", "/doctor"))["checks"]}
    assert {"git", "origin", "node", "ai_cli"} <= set(checks)
    assert checks["git"]["ok"] is True
    assert checks["git"]["version"]
    assert checks["origin"]["ok"] is False
    assert "git" in checks["origin"]["fix"]


async def test_errors_outside_of_endpoints_have_the_same_form(served: ServedRepository) -> None:
    assert await served.error("GET", "/bogus") == (404, "NOT_FOUND")
    assert await served.error("PUT", "/requests") == (405, "METHOD_NOT_ALLOWED")
    response = await served.http.post(f"{API}/requests", content=b"{not json")
    assert (response.status_code, response.json()["error"]["code"]) == (400, "INVALID_REQUEST")
    hostile = {"Origin": "https://evil.example"}
    response = await served.http.post(f"{API}/requests", json={"title": "x"}, headers=hostile)
    assert (response.status_code, response.json()["error"]["code"]) == (403, "ORIGIN_REFUSED")


async def test_gateway_without_a_repository_says_so(own_gateway: RunningGateway) -> None:
    for method, path in (("GET", "/requests"), ("POST", "/doctor"), ("GET", "/requests/x/raw")):
        response = await own_gateway.http.request(method, f"{API}{path}")
        error = response.json()["error"]
        assert (response.status_code, error["code"]) == (404, "NO_REPOSITORY")
        assert "pyoco-server agent --repo DIR" in error["details"]["hint"]


async def test_dashboard_knows_whether_a_repository_is_served(
    served: ServedRepository, config: NatsBackendConfig
) -> None:
    page = await served.http.get("/")
    if page.status_code == 404:
        pytest.skip("the dashboard is not built")
    assert 'data-requests="true"' in page.text


async def test_file_of_another_machine_is_shown_and_never_running(served: ServedRepository) -> None:
    await served.create("elsewhere")
    path = served.repository.repo / "requests" / "elsewhere.md"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("status: queued", "status: done\npr_url: https://x.example/1"))
    request = await served.get("elsewhere")
    assert (request["status"], request["pr_url"]) == ("done", "https://x.example/1")
    path.write_text(text.replace("status: queued", "status: running\nrun_id: '007'\nphase: testing"))
    request = await served.get("elsewhere")
    assert request["status"] == "failed"
    assert "knows no run of it" in request["failure_reason"]
    assert json.dumps(request)
