"""Workers install the wheels of the registry."""

import asyncio
import importlib.util
import sys
import time
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyoco.core.models import Flow, Task

from pyoco_server.broker.jetstream.object_store import StoredChunks
from pyoco_server.config import NatsBackendConfig
from pyoco_server.wheels import wheel_sync
from pyoco_server.wheels.wheel_site import OWN_FOLDER
from pyoco_server.wheels.wheel_sync import InstallFailed
from pyoco_server.worker import PyocoNatsWorker
from pyoco_server.worker.ipc.protocol import Setup
from tests.support.broker.worker_records import worker, worker_is
from tests.support.processes import find_processes
from tests.support.running.gateway import RunningGateway
from tests.support.running.workers import serving_worker
from tests.support.samples.wheel_uploads import HELLO, greeting, greetings, registered, synced
from tests.support.samples.wheels import wheel_bytes
from tests.support.waiting import LIMIT_SEC, eventually

OLD, NEW = "greetings-0.1.0-py3-none-any.whl", "greetings-0.2.0-py3-none-any.whl"


@pytest.fixture
def config(config: NatsBackendConfig) -> NatsBackendConfig:
    return replace(config, wheel_sync_enabled=True, wheel_sync_interval_sec=0.5)


@pytest.fixture
def without_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wheels are only unpacked, which takes a fraction of the time of pip."""

    async def unpack(wheel: Path, target: Path, **_: Any) -> None:
        with zipfile.ZipFile(wheel) as archive:
            await asyncio.to_thread(archive.extractall, target)

    monkeypatch.setattr(wheel_sync, "pip_install", unpack)


async def ended(gateway: RunningGateway) -> dict[str, Any]:
    """A run of the wheel's task, however it ended."""
    run_id = (await gateway.submit_yaml(HELLO)).json()["run_id"]
    return await gateway.ends(run_id)


def waiting_greetings(release: Path) -> bytes:
    """A wheel whose task waits for a file, and imports the rest of its code after that."""
    waiting = (
        "import pathlib, time\ndef hello(ctx):\n"
        f"    while not pathlib.Path({str(release)!r}).exists():\n        time.sleep(0.01)\n"
        "    from greetings_late import WORD\n    return WORD\n"
    )
    files = {"greetings.py": waiting, "greetings_late.py": "WORD = 'as it began'\n"}
    return wheel_bytes(version="0.1.0", files=files)


async def test_a_new_version_is_what_the_next_run_uses_without_a_restart(
    config: NatsBackendConfig, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A change is synchronised before the interval ends.
    rarely = replace(config, wheel_sync_interval_sec=3600.0)
    async with serving_worker(rarely):
        await synced(gateway, last_result="ok", selected_count=0)
        instance = (await worker(gateway))["instance_id"]
        await registered(gateway, content=greetings("0.1.0", "old"))
        first = await synced(gateway, updated_wheels=[OLD])
        assert await greeting(gateway) == "old"
        new = await registered(gateway, version="0.2.0", content=greetings("0.2.0", "new"))
        second = await synced(gateway, updated_wheels=[NEW])
        assert await greeting(gateway) == "new"
        assert (await worker(gateway))["instance_id"] == instance
    assert first["installed_wheels"][0]["version"] == "0.1.0"
    [installed] = second["installed_wheels"]
    assert (installed["package"], installed["version"], installed["nuid"]) == (
        "greetings",
        "0.2.0",
        new["nuid"],
    )
    assert installed["sha256_hex"] == new["sha256_hex"]
    assert second["selected_wheels"] == [NEW]
    assert (second["updated_count"], second["removed_count"], second["error"]) == (1, 0, None)
    assert first["last_attempt_at"] <= first["last_success_at"] <= second["last_synced_at"]

    async def not_again(*_: Any, **__: Any) -> None:
        raise InstallFailed("pip was called again")

    # A worker that starts again does not install what it has.
    monkeypatch.setattr(wheel_sync, "pip_install", not_again)
    async with serving_worker(rarely):
        again = await synced(gateway, last_result="ok")
        assert again["installed_wheels"] == second["installed_wheels"]
        assert await greeting(gateway) == "new"


@pytest.mark.usefixtures("without_pip")
async def test_a_deleted_wheel_is_uninstalled_and_an_older_one_takes_its_place(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    await registered(gateway, content=greetings("0.1.0", "old"))
    await registered(gateway, version="0.2.0", content=greetings("0.2.0", "new"))
    async with serving_worker(config):
        assert await greeting(gateway) == "new"
        await gateway.http.delete(f"/wheels/{NEW}")
        await synced(gateway, updated_wheels=[OLD], selected_wheels=[OLD])
        assert await greeting(gateway) == "old"
        await gateway.http.delete(f"/wheels/{OLD}")
        gone = await synced(gateway, removed_wheels=[OLD], installed_wheels=[], selected_count=0)
        assert (gone["last_result"], gone["removed_count"], gone["updated_count"]) == ("ok", 1, 0)
        run = await ended(gateway)
        assert (run["status"], "there is no module 'greetings'" in run["error"]) == ("FAILED", True)
        folder = Path(config.wheel_sync_dir) / OWN_FOLDER / "worker" / "installed"
        await eventually(lambda: not list(folder.iterdir()), describe="its files are gone")


@pytest.mark.usefixtures("without_pip")
async def test_a_run_keeps_its_code_while_another_slot_synchronises(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    folder = Path(config.wheel_sync_dir) / OWN_FOLDER / "worker" / "installed"
    release = tmp_path / "release"

    def installed() -> set[str]:
        return {path.name for path in folder.iterdir()}

    first = await registered(gateway, content=waiting_greetings(release))
    async with serving_worker(config, concurrency=2):
        await synced(gateway, last_result="ok")
        run_id = (await gateway.submit_yaml(HELLO)).json()["run_id"]
        await worker_is(gateway, state="RUNNING")
        for version in ("0.2.0", "0.3.0"):
            last = await registered(gateway, version=version, content=greetings(version, version))
            await synced(gateway, updated_wheels=[f"greetings-{version}-py3-none-any.whl"])
        assert await greeting(gateway) == "0.3.0"
        in_use = {first["nuid"], last["nuid"]}
        await eventually(lambda: installed() == in_use, describe="0.2.0 is gone, and 0.1.0 is not")
        release.touch()
        run = await gateway.ends(run_id)
        assert run["status"] == "COMPLETED", run["error"]
        assert run["task_records"]["hello"]["output"] == "as it began"
        await eventually(lambda: installed() == {last["nuid"]}, describe="0.1.0 is gone as well")


@pytest.mark.usefixtures("without_pip")
async def test_workers_on_one_machine_have_the_wheels_of_their_tags_and_leave_each_other_alone(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    await registered(gateway, content=greetings("0.1.0", "for all"))
    await registered(gateway, version="0.2.0", content=greetings("0.2.0", "for gpu"), tags="gpu,tpu")
    async with (
        serving_worker(config, worker_id="plain"),
        serving_worker(config, worker_id="gpu", tags=["gpu"]),
    ):
        plain = await synced(gateway, "plain", last_result="ok")
        gpu = await synced(gateway, "gpu", last_result="ok")
        assert (plain["selected_wheels"], gpu["selected_wheels"]) == ([OLD], [NEW])
        assert await greeting(gateway) == "for all"
        run_id = (await gateway.submit_yaml(HELLO, tag="gpu")).json()["run_id"]
        run = await gateway.ends(run_id)
        assert run["task_records"]["hello"]["output"] == "for gpu"
    # Nor was the environment of the workers touched, which is that of this test.
    assert importlib.util.find_spec("greetings") is None


@pytest.mark.usefixtures("without_pip")
async def test_wheels_for_another_platform_or_python_are_skipped_and_the_older_one_is_used(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    await registered(gateway, content=greetings("0.1.0", "fits"))
    await registered(gateway, version="0.2.0", platform="cp27-cp27mu-win32")
    demanding = "Metadata-Version: 2.1\nName: greetings\nVersion: 0.3.0\nRequires-Python: >=99\n"
    await registered(gateway, version="0.3.0", content=wheel_bytes(version="0.3.0", metadata=demanding))
    async with serving_worker(config):
        reported = await synced(gateway, last_result="ok", selected_wheels=[OLD])
        assert await greeting(gateway) == "fits"
    assert reported["skipped_incompatible_count"] == 2
    platform, python = reported["skipped_incompatible"]
    assert platform == {
        "name": "greetings-0.2.0-cp27-cp27mu-win32.whl",
        "reason": "this worker cannot install cp27-cp27mu-win32",
        "needs": "platform",
        "expected": "cp27-cp27mu-win32",
    }
    assert (python["needs"], python["expected"]) == ("python", ">=99")
    assert python["name"] == "greetings-0.3.0-py3-none-any.whl"
    assert python["reason"].startswith("it is for Python >=99, and this worker has 3.")


async def test_a_failed_installation_leaves_the_old_code_and_says_so(
    config: NatsBackendConfig, gateway: RunningGateway, caplog: pytest.LogCaptureFixture
) -> None:
    await registered(gateway, content=greetings("0.1.0", "old"))
    # Files for a place that pip does not know.
    odd = wheel_bytes(version="0.2.0", files={"greetings-0.2.0.data/nowhere/x": ""})
    async with serving_worker(config):
        assert await greeting(gateway) == "old"
        await registered(gateway, version="0.2.0", content=odd)
        await registered(gateway, "other", "1.0")
        failed = await synced(gateway, last_result="error", updated_wheels=["other-1.0-py3-none-any.whl"])
        assert NEW in failed["error"]
        assert "version 0.1.0 stays" in failed["error"]
        assert "nowhere" in failed["error"]
        assert [each["version"] for each in failed["installed_wheels"]] == ["0.1.0", "1.0"]
        [refused] = failed["failed_wheels"]
        assert refused["name"] == NEW
        assert "nowhere" in refused["reason"]
        assert await greeting(gateway) == "old"
        # A good one mends it.
        await registered(gateway, version="0.3.0", content=greetings("0.3.0", "newer"))
        mended = await synced(gateway, last_result="ok", error=None)
        assert mended["last_success_at"] >= failed["last_attempt_at"]
        assert mended["failed_wheels"] == []
        assert await greeting(gateway) == "newer"
    errors = [record for record in caplog.records if getattr(record, "err_id", "") == "ERR-PYOCO-0024"]
    assert errors


@pytest.mark.usefixtures("without_pip")
async def test_dependencies_that_nothing_brings_are_reported(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    needs = "Metadata-Version: 2.1\nName: greetings\nVersion: 0.1.0\nRequires-Dist: other>=1\n"
    info = {"greetings-0.1.0.dist-info/METADATA": f"{needs}Requires-Dist: msgspec\n"}
    await registered(gateway, content=wheel_bytes(metadata=info["greetings-0.1.0.dist-info/METADATA"]))
    async with serving_worker(config):
        reported = await synced(gateway, last_result="ok")
        [installed] = reported["installed_wheels"]
        assert installed["missing"] == ["other>=1"]
        await registered(gateway, "other", "1.0")
        complete = await synced(gateway, last_result="ok", updated_wheels=["other-1.0-py3-none-any.whl"])
        assert [each["missing"] for each in complete["installed_wheels"]] == [[], []]


async def test_an_installation_that_takes_too_long_is_ended(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    await registered(gateway, content=greetings("0.1.0", "old"))
    # Once: what has failed is tried again after the interval, and there is a pip then.
    once = replace(config, wheel_install_timeout_sec=0.01, wheel_sync_interval_sec=3600.0)
    async with serving_worker(once):
        reported = await synced(gateway, last_result="error")
        assert "pip took longer than 0.01 s (PYOCO_WHEEL_INSTALL_TIMEOUT_SEC)" in reported["error"]
        assert "not installed" in reported["error"]
        assert reported["installed_wheels"] == []
        assert find_processes("pip", config.wheel_sync_dir) == []


async def test_bytes_that_are_not_those_that_were_uploaded_are_never_installed(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    store = gateway.inside.wheels.registry._store

    async def blocks() -> Any:
        yield greetings("0.1.0", "forged")

    chunks = await store.store_chunks(blocks())
    forged = StoredChunks(nuid=chunks.nuid, size=chunks.size, count=chunks.count, sha256=bytes(32))
    await store.publish(OLD, forged, {}, revision=0)
    async with serving_worker(config):
        reported = await synced(gateway, last_result="error")
        assert "sha256" in reported["error"]
        assert reported["installed_wheels"] == []


@pytest.mark.usefixtures("without_pip")
async def test_no_synchronisation_begins_during_a_run(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    release = tmp_path / "release"
    await registered(gateway, content=waiting_greetings(release))
    async with serving_worker(config):
        await synced(gateway, last_result="ok")
        run_id = (await gateway.submit_yaml(HELLO)).json()["run_id"]
        await worker_is(gateway, state="RUNNING")
        before = (await worker(gateway))["wheel_sync"]["last_attempt_at"]
        await registered(gateway, version="0.2.0", content=greetings("0.2.0", "new"))
        # Several heartbeats, and more than one interval.
        seen = time.time()
        later = await eventually(
            lambda: _seen_after(gateway, seen + 1.5), describe="the worker has said more"
        )
        assert later["wheel_sync"]["last_attempt_at"] == before
        release.touch()
        run = await gateway.ends(run_id)
        assert run["task_records"]["hello"]["output"] == "as it began"
        await synced(gateway, updated_wheels=[NEW])
        assert await greeting(gateway) == "new"


async def _seen_after(gateway: RunningGateway, moment: float) -> dict[str, Any] | None:
    reported = await worker(gateway)
    return reported if reported["last_seen_at"] > moment else None


@pytest.mark.usefixtures("without_pip")
async def test_flows_that_come_as_a_wheel_are_there_when_the_worker_starts(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    code = (
        "from pyoco.core.models import Flow, Task\n"
        "def resolve(name):\n"
        "    flow = Flow(name)\n"
        "    flow.add_task(Task(func=lambda ctx: 'from a wheel', name='only'))\n"
        "    return flow\n"
    )
    await registered(
        gateway,
        "shipped_flows",
        "1.0",
        content=wheel_bytes("shipped_flows", "1.0", {"shipped_flows.py": code}),
    )
    setup = Setup.from_config(config, resolver="shipped_flows:resolve")
    connected = await PyocoNatsWorker.connect_processes(config, setup, concurrency=1, worker_id="worker")
    stop = asyncio.Event()
    serving = asyncio.create_task(connected.serve(stop))
    try:
        run = await gateway.ends(await gateway.submit("anything"))
        assert run["status"] == "COMPLETED", run["error"]
        assert run["task_records"]["only"]["output"] == "from a wheel"
    finally:
        stop.set()
        await serving
        await connected.close()


@pytest.mark.usefixtures("without_pip")
async def test_folders_of_workers_that_are_gone_are_removed_and_one_in_use_is_not_shared(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    folder = Path(config.wheel_sync_dir) / OWN_FOLDER
    # Files of others beside that folder are kept.
    theirs = [folder.parent / "poetry.lock", folder.parent / "poetry" / "notes.txt"]
    for path in theirs:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("of somebody else")
    await registered(gateway, content=greetings("0.1.0", "old"))
    async with serving_worker(config, worker_id="gone"):
        await synced(gateway, "gone", last_result="ok")
    async with serving_worker(config, worker_id="steady"):
        await synced(gateway, "steady", last_result="ok")
        assert sorted(path.name for path in folder.iterdir()) == ["steady", "steady.lock"]
        async with serving_worker(config, worker_id="other"):
            await synced(gateway, "other", last_result="ok")
            assert (folder / "steady" / "active.json").is_file()
        async with serving_worker(config, worker_id="steady", tags=["rival"]):
            rival = await synced(gateway, "steady", last_result="error")
            assert "another worker uses" in rival["error"]
    assert [path.read_text() for path in theirs] == ["of somebody else"] * 2


async def test_a_registry_without_wheels_is_no_error_and_a_worker_without_sync_says_so(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    async with (
        serving_worker(config, worker_id="syncs"),
        serving_worker(replace(config, wheel_sync_enabled=False), worker_id="plain"),
    ):
        syncs = await synced(gateway, "syncs", last_result="ok")
        plain = await synced(gateway, "plain", last_result="disabled")
        assert (syncs["enabled"], syncs["selected_count"], syncs["error"]) == (True, 0, None)
        assert (plain["enabled"], plain["last_attempt_at"]) == (False, None)
        await gateway.ends(await gateway.submit("noop"))
    assert not (Path(config.wheel_sync_dir) / OWN_FOLDER / "plain").exists()


@pytest.mark.usefixtures("without_pip")
async def test_a_worker_inside_a_program_uses_the_new_code_too_and_leaves_no_trace(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    def say(ctx: Any) -> Any:
        module = importlib.import_module("greetings")
        return module.hello(ctx)

    flow = Flow("say")
    flow.add_task(Task(func=say, name="say"))
    before = list(sys.path)
    await registered(gateway, content=greetings("0.1.0", "old"))
    embedded = await PyocoNatsWorker.connect(
        replace(config, wheel_sync_interval_sec=0.01), flow_resolver=lambda _: flow
    )

    async def text() -> Any:
        run_id = await gateway.submit("say")
        assert await embedded.run_once(timeout=LIMIT_SEC) == run_id
        return (await gateway.get(run_id, include="records"))["task_records"]["say"]["output"]

    async def says_new() -> bool:
        return bool(await text() == "new")

    try:
        assert await text() == "old"
        await registered(gateway, version="0.2.0", content=greetings("0.2.0", "new"))
        await eventually(says_new, describe="a later run uses the new code")
    finally:
        await embedded.close()
    assert sys.path == before
    assert "greetings" not in sys.modules
    assert importlib.util.find_spec("greetings") is None
