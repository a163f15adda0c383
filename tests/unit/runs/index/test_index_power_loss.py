"""An index that was open at a power failure is rebuilt."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pyoco_server.records.runs.run_models import encode
from pyoco_server.runs.index.index_writer import RunWrite
from pyoco_server.runs.index.run_index import RunIndex
from pyoco_server.runs.index.run_summary import summary_of
from pyoco_server.runs.index.sqlite import index_file
from tests.support.broker.stored_runs import ended

BUCKET = "2026-01-01T00:00:00Z"


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[RunIndex]:
    index = RunIndex(folder)
    await index.start()
    yield index
    await index.close()


@asynccontextmanager
async def never_closed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RunIndex]:
    """As a killed process leaves it."""
    with monkeypatch.context() as killed:
        killed.setattr(index_file.IndexFile, "flush", lambda _: None)
        async with opened(folder) as index:
            yield index


async def fill(index: RunIndex) -> None:
    run = ended(at=1.0)
    await index.begin(BUCKET)
    data = encode(run)
    await index.apply([RunWrite(run.run_id, 1, data, summary_of(data))], upto=1)
    await index.complete()


def reboot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_file, "THIS_BOOT", "another-boot")


async def test_an_index_open_at_a_power_loss_is_rebuilt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with never_closed(tmp_path, monkeypatch) as index:
        await fill(index)
    reboot(monkeypatch)
    async with opened(tmp_path) as index:
        assert (index.checkpoint.created, index.entries) == ("", 0)
    assert "rebuilding the index of runs: the system stopped while it was open" in caplog.messages


async def test_a_closed_index_is_kept_across_boots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(tmp_path) as index:
        await fill(index)
    reboot(monkeypatch)
    async with opened(tmp_path) as index:
        assert (index.checkpoint.created, index.entries) == (BUCKET, 1)


async def test_the_index_of_a_killed_gateway_is_kept_in_the_same_boot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with never_closed(tmp_path, monkeypatch) as index:
        await fill(index)
    async with opened(tmp_path) as index:
        assert (index.checkpoint.created, index.entries) == (BUCKET, 1)


async def test_a_reopened_index_has_to_be_closed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as index:
        await fill(index)
    async with never_closed(tmp_path, monkeypatch) as index:
        assert index.entries == 1
    reboot(monkeypatch)
    async with opened(tmp_path) as index:
        assert index.entries == 0


def test_without_a_boot_id_each_process_counts_as_a_boot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_file, "_BOOT_ID", tmp_path / "missing")
    assert index_file._this_boot() != index_file._this_boot()
