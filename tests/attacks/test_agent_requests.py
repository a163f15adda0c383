"""Hostile texts, ids and files of agent requests: they are shown as text, and name nothing outside."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from pyoco_server.config import NatsBackendConfig
from tests.support.agent.repository import AgentRepository
from tests.support.agent.served_repository import ServedRepository, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "\x1b[31mred\x1b[0m\x07",
    "a\nstatus: done\npr_url: https://evil.example",
    "---\nid: other\n---",
    "# 要望",
    "## Plan",
    "{{7*7}} ${HOME} $(id) `id` !!python/object/apply:os.system ['id']",
    "*anchor &anchor [1, 2] {a: b} | > % @",
    "\u202eright to left\u2066",
    "null",
    "P0: # not a comment",
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(
    shared_config: NatsBackendConfig, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ServedRepository]:
    repository = AgentRepository(tmp_path_factory.mktemp("attacked"))
    async with serving(shared_config, repository) as found:
        yield found


@pytest.mark.parametrize("number", range(len(HOSTILE)))
async def test_hostile_texts_stay_texts(served: ServedRepository, number: int) -> None:
    text = HOSTILE[number]
    request_id = f"hostile-{number}"
    body = {"title": text, "id": request_id, "tags": [text], "want": {"text": text}}
    created = (await served.ok("POST", "/requests", body))["request"]
    assert (created["id"], created["status"], created["pr_url"]) == (request_id, "queued", None)
    assert "\n" not in created["title"]
    assert "\x1b" not in created["title"]
    found = await served.ok("GET", f"/requests/{request_id}")
    assert found["request"] == created
    assert found["request"]["problems"] == []
    assert found["content"]["sections"]["plan"] == ""
    changed = await served.ok("PATCH", f"/requests/{request_id}", {"want": {"text": f"{text}\n{text}"}})
    assert (changed["request"]["status"], changed["request"]["title"]) == ("queued", created["title"])
    for path in ("", "/raw"):
        response = await served.call("GET", f"/requests/{request_id}{path}")
        assert response.headers["x-content-type-options"] == "nosniff"
        assert not response.headers["content-type"].startswith("text/html")
        assert response.headers["content-security-policy"].startswith("default-src 'none'")


@pytest.mark.parametrize(
    "request_id",
    ["../x", "..", "/etc/passwd", "a/../b", "a\\b", "x.md", "a b", "é", "a\x00", "a\n", ">", "*"],
)
async def test_ids_never_leave_the_folder(served: ServedRepository, request_id: str) -> None:
    before = sorted(served.repository.repo.parent.rglob("*.md"))
    response = await served.call("POST", "/requests", {"title": "x", "id": request_id})
    assert (response.status_code, response.json()["error"]["code"]) == (400, "INVALID_REQUEST")
    assert sorted(served.repository.repo.parent.rglob("*.md")) == before


@pytest.mark.parametrize(
    "branch", ["main", "--upload-pack=evil", "ai/../main", "ai/x y", "refs/heads/main", "ai/x..y", "ai/@{1}"]
)
async def test_branches_that_are_no_branch_of_an_agent_are_never_executed(
    served: ServedRepository, branch: str, request: pytest.FixtureRequest
) -> None:
    request_id = f"branch-{abs(hash(branch)) % 10**6}"
    body = {"title": "x", "id": request_id, "branch": branch}
    assert await served.error("POST", "/requests", body) == (400, "INVALID_REQUEST")
    await served.create(request_id)
    requests = served.repository.settings.paths.requests
    requests.change(request_id, lambda file: file.changed({"branch": branch}))
    assert await served.error("POST", f"/requests/{request_id}/enqueue") == (400, "INVALID_REQUEST")
    assert await served.queue.get(request_id) is None


async def test_links_are_no_requests_and_no_artifacts(served: ServedRepository, tmp_path: Path) -> None:
    secret = tmp_path / "secret.md"
    secret.write_text("---\ntitle: secret\n---\n\n# 要望\n\nthe password\n")
    repo = served.repository.repo
    (repo / "requests").mkdir(exist_ok=True)
    (repo / "requests" / "to-a-secret.md").symlink_to(secret)
    assert await served.error("GET", "/requests/to-a-secret") == (404, "REQUEST_NOT_FOUND")
    assert "to-a-secret" not in json.dumps(await served.ok("GET", "/requests"))
    await served.create("with-run")
    folder = repo / "runs" / "with-run" / "001"
    folder.mkdir(parents=True)
    (folder / "linked.log").symlink_to(secret)
    artifacts = "/requests/with-run/runs/001/artifacts"
    assert await served.error("GET", f"{artifacts}/linked.log") == (404, "ARTIFACT_NOT_FOUND")
    for name in ("..%2f..%2f..%2fREADME.md", "%2e%2e", ".gitignore", "%00"):
        status, _ = await served.error("GET", f"{artifacts}/{name}")
        assert status == 404


async def test_folder_of_a_run_that_is_a_link_is_not_read(served: ServedRepository, tmp_path: Path) -> None:
    await served.create("linked-run")
    outside = tmp_path / "outside" / "001"
    outside.mkdir(parents=True)
    (outside / "secret.txt").write_text("the password\n")
    runs_folder = served.repository.repo / "runs"
    runs_folder.mkdir(exist_ok=True)
    (runs_folder / "linked-run").symlink_to(outside.parent)
    runs = "/requests/linked-run/runs"
    assert await served.error("GET", f"{runs}/001/artifacts/secret.txt") == (404, "ARTIFACT_NOT_FOUND")
    assert "secret.txt" not in json.dumps(await served.ok("GET", runs))


async def test_oversized_want_is_refused(served: ServedRepository) -> None:
    body = {"title": "large", "id": "large", "want": {"text": "x" * (5 * 1024 * 1024)}}
    assert await served.error("POST", "/requests", body) == (400, "INVALID_REQUEST")
    assert not (served.repository.repo / "requests" / "large.md").exists()
    body["want"] = {"text": "x" * (9 * 1024 * 1024)}
    assert await served.error("POST", "/requests", body) == (400, "INVALID_REQUEST")


@pytest.mark.parametrize(
    "field",
    [
        "run_id: 1234567",
        f"run_id: {'9' * 5000}",
        f"attempt: {'9' * 5000}",
        "updated_at: 9999-12-31T23:59:59-12:00",
        "created_at: 0001-01-01T00:00:00+14:00",
    ],
    ids=lambda field: field[:20],
)
async def test_one_strange_header_does_not_hide_the_other_requests(
    served: ServedRepository, field: str
) -> None:
    folder = served.repository.repo / "requests"
    folder.mkdir(exist_ok=True)
    (folder / "beside.md").write_text("---\ntitle: beside\n---\n\n# 要望\n")
    (folder / "strange.md").write_text(f"---\n{field}\n---\n\n# 要望\n")
    listed = await served.ok("GET", "/requests")
    assert {"beside", "strange"} <= {request["id"] for request in listed["items"]}
    assert (await served.get("strange"))["status"] == "queued"
