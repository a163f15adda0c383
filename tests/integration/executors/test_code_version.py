"""The version of a folder of flows is computed once for all executors of a worker."""

import os
from pathlib import Path

from pyoco_server.worker.executors.renewable_executor import RenewableExecutor
from pyoco_server.worker.flows.code_version import code_version
from pyoco_server.worker.ipc.protocol import Ready, Setup


async def ready(setup: Setup, versions: dict[str, str]) -> Ready:
    """What a new executor has found."""
    executor = RenewableExecutor(setup, versions=versions)
    try:
        await executor.start()
        return executor.ready
    finally:
        await executor.close()


async def test_other_executors_are_told_the_version_until_the_code_changes(tmp_path: Path) -> None:
    flow, wheels = tmp_path / "flow.py", tmp_path / "wheels"
    flow.write_text("one = 1\n")
    setup, versions = Setup(flows=str(tmp_path), code_folders=[str(wheels)]), dict[str, str]()
    first = await ready(setup, versions)
    assert first.code_version == code_version(tmp_path, [])
    assert versions == {first.code_key: first.code_version}
    versions[first.code_key] = "told"
    assert (await ready(setup, versions)).code_version == "told"
    flow.write_text("two = 2\n")
    changed = await ready(setup, versions)
    assert changed.code_version == code_version(tmp_path, []) != first.code_version
    assert versions == {changed.code_key: changed.code_version}
    (wheels / "reports-1.0.dist-info").mkdir(parents=True)
    with_wheel = await ready(setup, versions)
    assert with_wheel.code_version == code_version(tmp_path, [str(wheels)]) != changed.code_version


async def test_the_code_of_a_resolver_has_no_version(tmp_path: Path) -> None:
    (tmp_path / "resolving.py").write_text("def resolve(name):\n    raise KeyError(name)\n")
    versions: dict[str, str] = {}
    found = await ready(Setup(resolver=f"{tmp_path}/resolving.py:resolve"), versions)
    assert (found.code_version, versions) == ("", {})


async def test_a_change_that_keeps_size_and_time_of_a_file_is_another_version(tmp_path: Path) -> None:
    """As from an image or an archive whose files all have the same time."""
    flow, versions = tmp_path / "flow.py", dict[str, str]()
    flow.write_text("one = 1\n")
    os.utime(flow, (0, 0))
    first = await ready(Setup(flows=str(tmp_path)), versions)
    flow.write_text("two = 2\n")
    os.utime(flow, (0, 0))
    changed = await ready(Setup(flows=str(tmp_path)), versions)
    assert changed.code_version == code_version(tmp_path, []) != first.code_version
