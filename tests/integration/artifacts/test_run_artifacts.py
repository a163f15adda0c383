"""Files of a run on their way to NATS and back, while they change."""

import os
from collections.abc import AsyncIterable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.broker.client.connection import Connection, NoResponders
from pyoco_server.broker.storage.artifact_usage import ArtifactUsage
from pyoco_server.broker.stores.runs.run_object_store import RunObject, RunObjects
from pyoco_server.records.runs.artifact_models import ArtifactSummary
from pyoco_server.records.runs.run_models import new_run_id
from pyoco_server.runs.lifecycle.ownership import NotOwner, RunTaken
from pyoco_server.worker.artifacts import artifact_folder
from pyoco_server.worker.session import run_artifacts
from pyoco_server.worker.session.run_artifacts import LeftOutFiles, RunArtifacts, RunPlace

pytestmark = pytest.mark.asyncio(loop_scope="module")

TAG = "default"


class FilesOfRun:
    """One attempt after the other of a run with files."""

    def __init__(self, connection: Connection, folder: Path) -> None:
        self.connection = connection
        self.objects = RunObjects(connection)
        self.run_id = new_run_id()
        self.notes: list[str] = []
        self.lost: NotOwner | None = None
        self._parent = folder
        self.attempt()

    def attempt(self, run_id: str | None = None, *, tenant: str | None = None, **settings: Any) -> None:
        """Another one, on another machine."""
        self.run_id = run_id or self.run_id
        number = len(os.listdir(self._parent)) if self._parent.exists() else 0
        self.run_folder = self._parent / str(number)
        self.folder = self.run_folder / "artifacts"
        self.folder.mkdir(parents=True)
        config = self.connection.config
        self.connection.config = replace(config, **settings)
        place = RunPlace(TAG, self.run_id, tenant, str(self.run_folder))
        self.files = RunArtifacts(
            self.connection,
            self.objects,
            ArtifactUsage(self.connection),
            place,
            LeftOutFiles(None, lambda task, text: self.notes.append(text)),
            verify_ownership=self._verify_ownership,
        )
        self.connection.config = config

    async def _verify_ownership(self) -> None:
        if self.lost is not None:
            raise self.lost

    async def stored(self) -> dict[str, str]:
        found = await self.objects.entries(TAG, self.run_id)
        return {each.name.removeprefix("artifacts/"): await self._text(each) for each in found}

    async def _text(self, stored: RunObject) -> str:
        blocks = [block async for block in self.objects.read(TAG, self.run_id, stored)]
        return b"".join(blocks).decode()

    @property
    def left_out(self) -> dict[str, str]:
        summary = self.files.summary or ArtifactSummary()
        return {each.name: each.reason for each in summary.left_out}

    def during_upload(self, act: Callable[[], object], *, times: int = 1) -> None:
        """Do something after the first block of an upload was read."""
        put = self.objects.put

        async def putting(tag: str, run_id: str, name: str, blocks: AsyncIterable[bytes], **how: Any) -> Any:
            async def interrupted() -> AsyncIterable[bytes]:
                nonlocal times
                async for block in blocks:
                    if times:
                        times -= 1
                        act()
                    yield block

            return await put(tag, run_id, name, interrupted(), **how)

        self.objects.put = putting  # type: ignore[method-assign]


@pytest.fixture
def run(shared_connection: Connection, tmp_path: Path) -> FilesOfRun:
    return FilesOfRun(shared_connection, tmp_path / "attempts")


async def test_new_and_changed_files_are_stored_and_others_are_not_read_again(run: FilesOfRun) -> None:
    (run.folder / "a").write_text("one")
    (run.folder / "b").write_text("two")
    await run.files.store("first", {})
    before = {each.name: each for each in await run.objects.entries(TAG, run.run_id)}
    (run.folder / "b").write_text("three")
    await run.files.store("second", {})
    after = {each.name: each for each in await run.objects.entries(TAG, run.run_id)}
    assert await run.stored() == {"a": "one", "b": "three"}
    assert after["artifacts/a"] == before["artifacts/a"]
    assert [each.details["task"] for each in after.values()] == ["first", "second"]
    assert run.files.summary == ArtifactSummary(count=2, bytes=8)


async def test_a_file_that_is_removed_while_it_is_uploaded_is_stored_as_it_was(run: FilesOfRun) -> None:
    large = run.folder / "large"
    large.write_text("x" * 2_000_000)
    run.during_upload(large.unlink)
    await run.files.store("task", {})
    assert not large.exists()
    assert await run.stored() == {"large": "x" * 2_000_000}
    assert run.left_out == {}


async def test_a_file_that_is_removed_before_it_is_read_is_left_out_with_a_reason(
    run: FilesOfRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run.folder / "gone").write_text("x")
    scan = artifact_folder.scan

    def scan_and_remove(folder: str) -> Any:
        content = scan(folder)
        (run.folder / "gone").unlink()
        return content

    monkeypatch.setattr(run_artifacts, "scan", scan_and_remove)
    await run.files.store("task", {})
    assert await run.stored() == {}
    assert run.left_out == {"gone": "it was removed before it was read"}
    assert run.notes == ["gone is not stored as an artifact: it was removed before it was read"]


async def test_a_file_that_changes_once_while_it_is_uploaded_is_read_again(run: FilesOfRun) -> None:
    file = run.folder / "file"
    file.write_text("before")
    run.during_upload(lambda: file.write_text("afterwards"))
    await run.files.store("task", {})
    assert await run.stored() == {"file": "afterwards"}


async def test_a_file_that_never_rests_is_left_out_until_it_does(run: FilesOfRun) -> None:
    file = run.folder / "file"
    file.write_text("x")

    def append() -> None:
        with file.open("a") as opened:
            opened.write("x")

    run.during_upload(append, times=3)
    await run.files.store("task", {})
    assert await run.stored() == {}
    assert run.left_out == {"file": "it was changed while it was read"}
    await run.files.store("next", {})
    assert await run.stored() == {"file": "xxxx"}
    assert run.left_out == {}


async def test_what_nats_refuses_is_left_out_and_the_rest_is_not_tried(
    run: FilesOfRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a worker whose account an earlier version has made."""
    tried: list[str] = []

    async def refused(tag: str, run_id: str, name: str, *_: Any, **__: Any) -> Any:
        tried.append(name)
        raise NoResponders("nobody listens")

    monkeypatch.setattr(run.objects, "put", refused)
    monkeypatch.setattr(run_artifacts, "_AT_ONCE", 1)
    monkeypatch.setattr(run_artifacts, "_RETRY_SEC", 0.0)
    for name in "abc":
        (run.folder / name).write_text("x")
    await run.files.store("task", {})
    assert tried == ["artifacts/a"] * 3
    assert list(run.left_out) == ["a", "b", "c"]
    assert set(run.left_out.values()) == {"NATS did not store it: nobody listens"}


async def test_nothing_is_stored_for_a_run_with_another_owner(run: FilesOfRun) -> None:
    (run.folder / "a").write_text("x")
    run.lost = RunTaken("another worker has it")
    with pytest.raises(RunTaken):
        await run.files.store("task", {})
    assert await run.stored() == {}


async def test_a_later_attempt_finds_the_files_and_stores_only_what_it_changes(run: FilesOfRun) -> None:
    (run.folder / "sub").mkdir()
    (run.folder / "sub" / "a").write_text("one")
    (run.folder / "empty").write_text("")
    await run.files.store("first", {})
    before = await run.objects.entries(TAG, run.run_id)
    run.attempt()
    await run.files.restore()
    assert (run.folder / "sub" / "a").read_text() == "one"
    assert (run.folder / "empty").read_text() == ""
    await run.files.store("second", {})
    assert await run.objects.entries(TAG, run.run_id) == before
    assert run.files.summary == ArtifactSummary(count=2, bytes=3)


async def test_objects_with_names_that_lead_elsewhere_are_not_restored(run: FilesOfRun) -> None:
    """Another program with the rights of a worker may have stored them."""

    async def content() -> AsyncIterable[bytes]:
        yield b"evil"

    for name in ("artifacts/../evil", "artifacts//evil", "outputs/evil", "artifacts/a/../../../evil"):
        await run.objects.put(TAG, run.run_id, name, content())
    await run.files.restore()
    assert os.listdir(run.folder) == []
    assert list(run.run_folder.parent.rglob("*evil*")) == []
    assert run.files.summary is None


async def test_files_are_not_restored_through_a_link(run: FilesOfRun, tmp_path: Path) -> None:
    (run.folder / "sub").mkdir()
    (run.folder / "sub" / "a").write_text("one")
    await run.files.store("first", {})
    run.attempt()
    outside = tmp_path / "outside"
    outside.mkdir()
    (run.folder / "sub").symlink_to(outside)
    await run.files.restore()
    assert os.listdir(outside) == []
    assert "it was not restored for this attempt" in run.left_out["sub/a"]


async def test_a_rerun_gets_the_files_of_the_tasks_that_it_reuses_as_its_own(run: FilesOfRun) -> None:
    (run.folder / "a").write_text("one")
    await run.files.store("first", {})
    (run.folder / "b").write_text("two")
    await run.files.store("second", {})
    origin = run.run_id
    run.attempt(new_run_id())
    await run.files.restore_origin(origin, {"first"})
    assert sorted(os.listdir(run.folder)) == ["a"]
    await run.files.store("second", {})
    [stored] = await run.objects.entries(TAG, run.run_id)
    assert (stored.name, stored.details) == ("artifacts/a", {"task": "first"})


async def test_the_files_of_all_runs_of_a_tenant_are_limited(run: FilesOfRun) -> None:
    await ArtifactUsage(run.connection).publish({"acme": 90, None: 0})
    run.attempt(tenant="acme", artifact_tenant_max_bytes=100)
    (run.folder / "a").write_text("x" * 10)
    (run.folder / "b").write_text("x")
    await run.files.store("task", {})
    assert await run.stored() == {"a": "x" * 10}
    assert "PYOCO_ARTIFACT_TENANT_MAX_BYTES=100" in run.left_out["b"]
    run.attempt(new_run_id(), tenant=None, artifact_tenant_max_bytes=100)
    (run.folder / "b").write_text("x")
    await run.files.store("task", {})
    assert await run.stored() == {"b": "x"}


async def test_a_usage_that_cannot_be_read_limits_nothing(
    run: FilesOfRun, caplog: pytest.LogCaptureFixture
) -> None:
    run.attempt(artifact_tenant_max_bytes=1, artifact_usage_kv_bucket="missing")
    (run.folder / "a").write_text("x")
    await run.files.store("task", {})
    assert await run.stored() == {"a": "x"}
    assert "PYOCO_ARTIFACT_TENANT_MAX_BYTES cannot be checked" in caplog.text
