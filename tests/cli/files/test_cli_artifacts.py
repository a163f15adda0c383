"""`pyoco-client artifacts`."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.http_client import PyocoHttpClient, PyocoHttpError
from tests.support.commands import ClientCommand
from tests.support.waiting import LIMIT_SEC

FILES = {"table.csv": "a,b\n", "sub/page.html": "<p>"}


@pytest.fixture(scope="module")
def run_id(http: PyocoHttpClient) -> str:
    run = http.wait(http.submit_run("writing-files", {"files": FILES})["run_id"], LIMIT_SEC)
    assert run["status"] == "COMPLETED"
    return run["run_id"]


def test_files_are_listed(client: ClientCommand, run_id: str) -> None:
    listed = client.json("artifacts", "list", run_id)
    assert [each["name"] for each in listed["artifacts"]] == ["sub/page.html", "table.csv"]
    table = client.table("artifacts", "list", run_id)
    assert "sub/page.html" in table
    assert "Not stored" not in table


def test_files_that_were_left_out_are_listed(
    client: ClientCommand, http: PyocoHttpClient, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("")
    submitted = http.submit_run("odd-files", {"outside": str(tmp_path / "secret")})
    run = http.wait(submitted["run_id"], LIMIT_SEC)
    table = client.table("artifacts", "list", run["run_id"])
    assert "Not stored: 8" in table
    assert "pipe: it is a pipe, not a regular file" in table


def test_one_file_is_written_under_its_name(client: ClientCommand, run_id: str, tmp_path: Path) -> None:
    done = client("artifacts", "get", run_id, "sub/page.html", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "sub/page.html (3 B)\n"
    assert (tmp_path / "sub" / "page.html").read_text() == "<p>"


def test_one_file_is_written_to_the_standard_output(client: ClientCommand, run_id: str) -> None:
    done = client.run("artifacts", "get", run_id, "table.csv", "--output", "-")
    assert (done.returncode, done.stdout) == (0, "a,b\n")
    assert "needs the NAME" in client.error("artifacts", "get", run_id, "--output", "-")


def test_all_files_are_written_into_a_folder(client: ClientCommand, run_id: str, tmp_path: Path) -> None:
    assert client("artifacts", "get", run_id, cwd=tmp_path).returncode == 0
    assert (tmp_path / run_id / "table.csv").read_text() == "a,b\n"
    assert client("artifacts", "get", run_id, "--output", "there", cwd=tmp_path).returncode == 0
    assert (tmp_path / "there" / "sub" / "page.html").read_text() == "<p>"


def test_a_file_that_exists_is_replaced_on_request_only(
    client: ClientCommand, run_id: str, tmp_path: Path
) -> None:
    (tmp_path / "table.csv").write_text("mine")
    get = ("artifacts", "get", run_id, "--output", str(tmp_path))
    assert "table.csv exists; --force replaces it" in client.error(*get)
    assert not (tmp_path / "sub").exists()
    assert client(*get, "--force").returncode == 0
    assert (tmp_path / "table.csv").read_text() == "a,b\n"


@pytest.mark.parametrize("name", ["missing", "%2e%2e/x", "a/b/c"])
def test_an_unknown_file_is_refused_and_leaves_no_folder(
    client: ClientCommand, run_id: str, tmp_path: Path, name: str
) -> None:
    error = client.error("artifacts", "get", run_id, name, cwd=tmp_path)
    assert "ERR-PYOCO-0072" in error
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def listing(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Have the gateway list one file of this name, as a gateway that is not ours could."""

    def pretend(name: str) -> None:
        file: dict[str, Any] = {"name": name, "bytes": 4, "sha256": "0" * 64}
        listed = {"artifacts": [file], "left_out": [], "left_out_count": 0}
        monkeypatch.setattr(PyocoHttpClient, "list_artifacts", lambda _client, _run: listed)
        monkeypatch.setattr(
            PyocoHttpClient, "download_artifact", lambda _client, _run, _name, target: target.write(b"evil")
        )

    return pretend


@pytest.mark.parametrize("name", ["../evil", "/tmp/evil", "a/../../evil", "a\\..\\evil", "a\0b", ""])
def test_names_that_lead_elsewhere_are_not_written(
    client: ClientCommand, run_id: str, tmp_path: Path, listing: Callable[[str], None], name: str
) -> None:
    listing(name)
    folder = tmp_path / "here"
    assert "is not written: a name" in client.error("artifacts", "get", run_id, "--output", str(folder))
    assert not folder.exists()


def test_links_in_the_folder_are_not_followed(client: ClientCommand, run_id: str, tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "here"
    outside.mkdir()
    folder.mkdir()
    (folder / "sub").symlink_to(outside)
    error = client.error("artifacts", "get", run_id, "sub/page.html", "--output", str(folder), "--force")
    assert "leads out of" in error
    assert list(outside.iterdir()) == []


def test_content_that_differs_from_its_digest_is_not_kept(
    client: ClientCommand, run_id: str, tmp_path: Path, listing: Callable[[str], None]
) -> None:
    listing("a")
    assert "was replaced while it was downloaded" in client.error(
        "artifacts", "get", run_id, "--output", str(tmp_path)
    )
    assert list(tmp_path.iterdir()) == []


def test_the_python_client_lists_and_downloads(http: PyocoHttpClient, run_id: str) -> None:
    assert http.list_artifacts(run_id)["bytes"] == 7
    target = io.BytesIO()
    assert http.download_artifact(run_id, "sub/page.html", target) == 3
    assert target.getvalue() == b"<p>"
    with pytest.raises(PyocoHttpError) as raised:
        http.download_artifact(run_id, "missing", target)
    assert raised.value.status == 404
