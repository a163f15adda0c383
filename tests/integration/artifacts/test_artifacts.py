"""Files that flows write, from a task to a download."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from pyoco_server.records.runs.run_models import new_run_id
from pyoco_server.worker import PyocoNatsWorker
from tests.integration.worker.conftest import OwnQueue
from tests.support.running.gateway import RunningGateway
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

TEXT = "a,b\n1,2\n"


@pytest.fixture
def served(shared_gateway: RunningGateway, shared_worker: PyocoNatsWorker) -> RunningGateway:
    return shared_gateway


@pytest.fixture
def own_queue(shared_gateway: RunningGateway) -> OwnQueue:
    return OwnQueue(shared_gateway)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def written(shared_gateway: RunningGateway, shared_worker: PyocoNatsWorker) -> dict[str, Any]:
    """A run that has written files of several types."""
    files = {"table.csv": TEXT, "sub/page.html": "<script>x</script>", 'ü ".png': "no image", "empty": ""}
    return await shared_gateway.run("writing-files", params={"files": files})


async def listed(gateway: RunningGateway, run_id: str) -> dict[str, Any]:
    response = await gateway.http.get(f"/runs/{run_id}/artifacts")
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    return body


def names(body: dict[str, Any]) -> list[str]:
    return [each["name"] for each in body["artifacts"]]


def reasons(body: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["reason"] for each in body["left_out"]}


async def test_written_files_are_listed(served: RunningGateway, written: dict[str, Any]) -> None:
    assert written["status"] == "COMPLETED"
    body = await listed(served, written["run_id"])
    assert names(body) == ["empty", "sub/page.html", "table.csv", 'ü ".png']
    [csv] = [each for each in body["artifacts"] if each["name"] == "table.csv"]
    assert csv.pop("created_at") > 0
    digest = hashlib.sha256(TEXT.encode()).hexdigest()
    expected = {
        "name": "table.csv",
        "bytes": 8,
        "sha256": digest,
        "content_type": "text/csv",
        "task": "write",
    }
    assert csv == expected
    assert (body["bytes"], body["left_out"], body["left_out_count"]) == (34, [], 0)
    assert written["artifacts"] == {"count": 4, "bytes": 34, "left_out_count": 0, "left_out": []}


async def test_a_file_is_an_attachment_that_executes_nothing(
    served: RunningGateway, written: dict[str, Any]
) -> None:
    response = await served.http.get(f"/runs/{written['run_id']}/artifacts/sub/page.html")
    assert (response.status_code, response.text) == (200, "<script>x</script>")
    headers = response.headers
    assert headers["Content-Type"] == "text/html"
    assert headers["Content-Disposition"] == 'attachment; filename="page.html"'
    assert "sandbox" in headers.get_list("Content-Security-Policy", split_commas=True)[0]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["ETag"] == f'"{hashlib.sha256(response.content).hexdigest()}"'


@pytest.mark.parametrize(
    ("name", "content_type", "disposition"),
    [
        ("table.csv", "text/plain; charset=utf-8", "inline"),
        ("sub/page.html", "text/plain; charset=utf-8", "inline"),
        ("%C3%BC%20%22.png", "image/png", "inline"),
        ("empty", "application/octet-stream", 'attachment; filename="empty"'),
    ],
)
async def test_what_a_browser_shows_safely_is_inline_on_request(
    served: RunningGateway, written: dict[str, Any], name: str, content_type: str, disposition: str
) -> None:
    path = f"/runs/{written['run_id']}/artifacts/{name}"
    response = await served.http.get(path, params={"disposition": "inline"})
    assert response.status_code == 200
    assert response.headers["Content-Type"] == content_type
    assert response.headers["Content-Disposition"] == disposition


async def test_a_name_that_is_not_ascii_is_in_the_header(
    served: RunningGateway, written: dict[str, Any]
) -> None:
    response = await served.http.get(f"/runs/{written['run_id']}/artifacts/%C3%BC%20%22.png")
    expected = "attachment; filename=\"_ _.png\"; filename*=UTF-8''%C3%BC%20%22.png"
    assert response.headers["Content-Disposition"] == expected


async def test_ranges_heads_and_etags(served: RunningGateway, written: dict[str, Any]) -> None:
    path = f"/runs/{written['run_id']}/artifacts/table.csv"
    part = await served.http.get(path, headers={"Range": "bytes=2-3"})
    assert (part.status_code, part.text, part.headers["Content-Range"]) == (206, TEXT[2:4], "bytes 2-3/8")
    beyond = await served.http.get(path, headers={"Range": "bytes=8-"})
    assert (beyond.status_code, beyond.headers["Content-Range"]) == (416, "bytes */8")
    head = await served.http.head(path)
    assert (head.status_code, head.content, head.headers["Content-Length"]) == (200, b"", "8")
    etag = head.headers["ETag"]
    known = await served.http.get(path, headers={"If-None-Match": f'"other", {etag}'})
    assert (known.status_code, known.content) == (304, b"")
    other = await served.http.get(path, headers={"If-Range": '"other"', "Range": "bytes=2-3"})
    assert (other.status_code, other.text) == (200, TEXT)
    empty = await served.http.get(f"/runs/{written['run_id']}/artifacts/empty")
    assert (empty.status_code, empty.content, empty.headers["Content-Length"]) == (200, b"", "0")


@pytest.mark.parametrize("name", ["missing", "..%2Ftable.csv", "sub", "%2Fetc%2Fpasswd", "a%00b", "x" * 2000])
async def test_other_names_are_404(served: RunningGateway, written: dict[str, Any], name: str) -> None:
    response = await served.http.get(f"/runs/{written['run_id']}/artifacts/{name}")
    assert (response.status_code, response.json()["err_id"]) == (404, "ERR-PYOCO-0072")


async def test_a_run_that_does_not_exist_has_no_artifacts(served: RunningGateway) -> None:
    for path in (f"/runs/{new_run_id()}/artifacts", f"/runs/{new_run_id()}/artifacts/a", "/runs/x/artifacts"):
        response = await served.http.get(path)
        assert (response.status_code, response.json()["err_id"]) == (404, "ERR-PYOCO-0005")


async def test_an_unknown_parameter_is_refused(served: RunningGateway, written: dict[str, Any]) -> None:
    response = await served.http.get(f"/runs/{written['run_id']}/artifacts/empty", params={"inline": "1"})
    assert response.status_code == 422


async def test_stored_files_are_removed_from_the_disk_of_the_worker(
    served: RunningGateway, written: dict[str, Any]
) -> None:
    runs = Path(served.inside.config.run_dir)
    assert list(runs.glob(f"{written['run_id']}*")) == []


async def test_files_are_kept_on_request(own_queue: OwnQueue, tmp_path: Path) -> None:
    async with own_queue.worker(artifact_keep_files=True, run_dir=str(tmp_path)):
        run = await own_queue.run("writing-files", params={"files": {"a": "kept"}})
    assert (tmp_path / f"{run['run_id']}-1" / "artifacts" / "a").read_text() == "kept"


async def test_saved_files_have_names_that_stay_in_the_folder(served: RunningGateway) -> None:
    refused = ["../x", "/etc/x", "a\0b", "", "a/../../x", 7]
    run = await served.run("saving-files", params={"names": ["good.txt", "sub/good.txt", *refused]})
    assert run["status"] == "COMPLETED"
    errors = run["task_records"]["save"]["output"]
    assert list(errors) == list(map(str, refused))
    assert errors["../x"].startswith("ctx.save_artifact('../x'): a name has no part '..'")
    body = await listed(served, run["run_id"])
    assert names(body) == ["good.txt", "sub/good.txt"]
    assert [each["task"] for each in body["artifacts"]] == ["save", "save"]


async def test_what_is_no_regular_file_is_left_out_with_a_reason(
    served: RunningGateway, tmp_path: Path
) -> None:
    outside = tmp_path / "outside" / "secret"
    outside.parent.mkdir()
    outside.write_text("secret")
    run = await served.run("odd-files", params={"outside": str(outside)})
    assert run["status"] == "COMPLETED"
    body = await listed(served, run["run_id"])
    assert names(body) == ["good.txt", "twin", "twin_too"]
    assert set(reasons(body)) == {
        *("link", "linked_folder", "hard", "pipe", "socket", "device", "back\\slash", "not-utf8-\\udcff"),
    }
    assert reasons(body)["device"] == "it is a device, not a regular file"
    assert body["left_out_count"] == 8
    # The run's record, its log and its explanation say the same.
    assert run["artifacts"]["left_out_count"] == 8
    logs = (await served.http.get(f"/runs/{run['run_id']}/logs")).json()["lines"]
    notes = [line["text"] for line in logs if line["stream"] == "note"]
    assert "link is not stored as an artifact: it is a symbolic link, not a regular file" in notes
    assert len(notes) == 8
    explained = (await served.http.get(f"/runs/{run['run_id']}/explain")).json()
    assert [each["code"] for each in explained["findings"]] == ["completed", "artifacts_left_out"]
    assert "8 files of the run are not stored" in explained["findings"][1]["message"]


async def test_a_folder_that_becomes_a_link_is_not_followed(served: RunningGateway, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    params = {"files": {"a": "mine"}, "outside": str(tmp_path / "secret")}
    run = await served.run("replaced-folder", params=params)
    body = await listed(served, run["run_id"])
    assert names(body) == ["a"]
    assert list(reasons(body)) == ["artifacts/"]
    assert "leads through a symbolic link" in reasons(body)["artifacts/"]


async def test_a_thousand_artifacts(served: RunningGateway) -> None:
    run = await served.run("many-files", params={"count": 1000, "size": 100})
    assert (run["status"], run["artifacts"]["count"]) == ("COMPLETED", 1000)
    body = await listed(served, run["run_id"])
    assert names(body) == [f"{number:05}.bin" for number in range(1000)]
    last = await served.http.get(f"/runs/{run['run_id']}/artifacts/00999.bin")
    assert last.content == (999).to_bytes(4) * 25


async def test_a_run_above_its_limits_completes_without_some_of_its_files(own_queue: OwnQueue) -> None:
    files = {"a": "1234567890", "b": "12345678901", "c": "1234567890", "d": "1", "e": "1"}
    limits: dict[str, Any] = {
        "artifact_max_bytes": 10,
        "artifact_run_max_bytes": 20,
        "artifact_run_max_count": 2,
    }
    async with own_queue.worker(**limits):
        run = await own_queue.run("writing-files", params={"files": files})
    assert run["status"] == "COMPLETED"
    body = await listed(own_queue.gateway, run["run_id"])
    assert names(body) == ["a", "c"]
    assert "PYOCO_ARTIFACT_MAX_BYTES=10" in reasons(body)["b"]
    assert "PYOCO_ARTIFACT_RUN_MAX_COUNT=2" in reasons(body)["d"]
    # It has them itself, as far as it still runs.
    assert sorted(run["task_records"]["found"]["output"]) == list("abcde")


async def test_the_artifacts_of_a_tenant_are_counted_and_limited(own_queue: OwnQueue) -> None:
    gateway = own_queue.gateway

    async def metric(name: str) -> float:
        text = (await gateway.http.get("/metrics")).text
        [line] = [line for line in text.splitlines() if line.startswith(f"{name} ")]
        return float(line.split()[1])

    async with own_queue.worker():
        before = await metric("pyoco_artifacts_bytes")
        run = await own_queue.run("writing-files", params={"files": {"a": "x" * 1000}})
        assert run["status"] == "COMPLETED"

        async def counted() -> bool:
            return await metric("pyoco_artifacts_bytes") >= before + 1000

        await eventually(counted, describe="the gateway counts them")
    item = (await gateway.http.get("/runs", params={"tag": own_queue.tag})).json()[0]
    assert item["artifacts"] == {"count": 1, "bytes": 1000, "left_out_count": 0}

    async def limited() -> bool:
        # A gateway counts with each sweep.
        async with own_queue.worker(artifact_tenant_max_bytes=1001):
            run = await own_queue.run("writing-files", params={"files": {"b": "12"}})
        body = await listed(gateway, run["run_id"])
        return "PYOCO_ARTIFACT_TENANT_MAX_BYTES=1001" in reasons(body).get("b", "")

    await eventually(limited, describe="a worker refuses more")


async def test_files_of_a_failed_task_are_stored_and_a_rerun_has_those_that_it_reuses(
    served: RunningGateway, tmp_path: Path
) -> None:
    release = tmp_path / "release"
    run = await served.run("failing-after-files", params={"release": str(release)})
    assert run["status"] == "FAILED"
    body = await listed(served, run["run_id"])
    assert [(each["name"], each["task"]) for each in body["artifacts"]] == [
        ("first.txt", "first"),
        ("second.txt", "second"),
    ]
    release.touch()
    response = await served.http.post(f"/runs/{run['run_id']}/rerun", json={"mode": "failed"})
    rerun = await served.ends(response.json()["run_id"])
    assert rerun["status"] == "COMPLETED"
    assert rerun["task_records"]["second"]["output"] == {"first.txt": "of the first task"}
    again = await listed(served, rerun["run_id"])
    assert [(each["name"], each["task"]) for each in again["artifacts"]] == [
        ("first.txt", "first"),
        ("second.txt", "second"),
    ]


async def test_a_run_that_continues_elsewhere_after_an_answer_finds_its_files(
    own_queue: OwnQueue, tmp_path: Path
) -> None:
    async with own_queue.worker("first", run_dir=str(tmp_path / "first")):
        run_id = await own_queue.submit("asking-with-files")
        await own_queue.gateway.reaches(run_id, "WAITING_HUMAN")
    assert names(await listed(own_queue.gateway, run_id)) == ["before.txt"]
    answer = await own_queue.gateway.http.post("/resume", json={"runId": run_id, "payload": "yes"})
    assert answer.status_code == 200
    async with own_queue.worker("second", run_dir=str(tmp_path / "second")):
        run = await own_queue.gateway.ends(run_id)
    assert run["task_records"]["write_and_ask"]["output"] == {"before.txt": "before the question"}
    assert list((tmp_path / "first").glob(f"{run_id}*")) == []
