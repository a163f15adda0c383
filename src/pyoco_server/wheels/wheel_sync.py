"""Synchronises the wheels of one worker with the registry: selects, installs and removes them.

When a wheel cannot be installed, its package stays at its version, and the others are installed.
"""

import asyncio
import hashlib
import logging
import os
import signal
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import BinaryIO, Final

from packaging.tags import Tag, sys_tags

from pyoco_server.broker.jetstream.stream_reads import MessageInfo
from pyoco_server.config import NatsBackendConfig
from pyoco_server.config.process_isolation import environment_without_secrets
from pyoco_server.errors import NatsUnavailable
from pyoco_server.errors.error_table import Err
from pyoco_server.records.workers.worker_models import (
    FailedWheel,
    InstalledWheel,
    SkippedWheel,
    WheelSyncResult,
    WheelSyncState,
)
from pyoco_server.wheels.wheel_dependencies import missing_requirements
from pyoco_server.wheels.wheel_registry import StoredWheel, WheelRegistry
from pyoco_server.wheels.wheel_site import FolderLocked, WheelSite

log = logging.getLogger(__name__)

# The worker's record is stored with every heartbeat.
_MAX_LISTED: Final = 100
_MAX_ERROR_CHARS: Final = 1000

# -I and --isolated: the working folder, pip's settings and variables have no influence.
_PIP: Final = ("-I", "-m", "pip", "--isolated", "--disable-pip-version-check", "--no-input", "--no-color")
_OPTIONS: Final = ("--no-deps", "--force-reinstall", "--no-index", "--no-cache-dir", "--quiet")
_OUTPUT_BYTES: Final = 2000

# Without the suffix of a pre-release, as pip compares it.
_OWN_PYTHON: Final = ".".join(str(number) for number in sys.version_info[:3])


class InstallFailed(Exception):
    pass


@dataclass(frozen=True, slots=True)
class WheelSelection:
    # One of each package.
    chosen: list[StoredWheel]
    # Those that match the tags of this worker, but not its Python or its platform.
    incompatible: list[SkippedWheel]


class WheelSync:
    def __init__(self, config: NatsBackendConfig, worker_id: str, tags: Sequence[str]) -> None:
        self.enabled = config.wheel_sync_enabled
        self.state = WheelSyncState(
            enabled=self.enabled,
            last_result=WheelSyncResult.IDLE if self.enabled else WheelSyncResult.DISABLED,
        )
        self._tags = tags
        self._timeout_sec = config.wheel_install_timeout_sec
        self._site = WheelSite(Path(config.wheel_sync_dir), worker_id)
        self._is_open = False
        # By package.
        self._installed: dict[str, InstalledWheel] = {}
        # The last record of the registry that was synchronised. Its sequence alone is not unique: a registry
        # that was restored from a backup uses it again.
        self._newest: MessageInfo | None = None
        self._is_synchronised = False

    @property
    def folders(self) -> list[str]:
        """The import path of the executors."""
        return [str(self._site.code_folder(wheel.nuid)) for wheel in self._installed.values()]

    async def close(self) -> None:
        await asyncio.to_thread(self._site.close)

    async def run(self, registry: WheelRegistry) -> bool:
        """Returns whether the code has changed. Errors are in `state` and in the log."""
        self.state.last_attempt_at = time.time()
        try:
            failures, changed = await self._run(registry)
        except (NatsUnavailable, FolderLocked, OSError) as error:
            self._failed([str(error) or type(error).__name__])
            return False
        if failures:
            self._failed([f"{each.name}: {each.reason}" for each in failures])
        else:
            self.state.last_result, self.state.error = WheelSyncResult.OK, None
            self.state.last_success_at = time.time()
        return changed

    async def clean(self, in_use: Collection[str] = ()) -> None:
        """Remove the folders of removed wheels, except those that an executor still uses."""
        if self._is_open:
            used = [wheel.nuid for wheel in self._installed.values()]
            await asyncio.to_thread(self._site.remove_except, [*used, *(Path(path).name for path in in_use)])

    async def _run(self, registry: WheelRegistry) -> tuple[list[FailedWheel], bool]:
        await self._open()
        newest = await registry.newest_record()
        if self._is_synchronised and newest == self._newest:
            return [], False
        selection = select(await registry.all(), self._tags)
        failures, updated = await self._install_new(registry, selection)
        removed = self._drop_unselected(selection)
        if updated or removed:
            await asyncio.to_thread(self._find_missing_requirements)
            await asyncio.to_thread(self._site.activate, self._installed.values())
        self._newest, self._is_synchronised = newest, not failures
        self.state.failed_wheels = failures[:_MAX_LISTED]
        self._report(selection, updated, removed)
        return failures, bool(updated or removed)

    async def _open(self) -> None:
        if not self._is_open:
            installed = await asyncio.to_thread(self._site.open)
            self._installed = {wheel.package: wheel for wheel in installed}
            self._is_open = True

    async def _install_new(
        self, registry: WheelRegistry, selection: WheelSelection
    ) -> tuple[list[FailedWheel], list[str]]:
        failures: list[FailedWheel] = []
        updated: list[str] = []
        for wheel in selection.chosen:
            earlier = self._installed.get(wheel.name.package)
            if earlier is not None and earlier.nuid == wheel.stored.nuid:
                continue
            try:
                await self._install(registry, wheel)
            except (InstallFailed, NatsUnavailable, OSError) as error:
                stays = f"version {earlier.version} stays" if earlier else "not installed"
                reason = f"{error} ({stays})"[:_MAX_ERROR_CHARS]
                failures.append(FailedWheel(name=wheel.name.file_name, reason=reason))
                continue
            self._installed[wheel.name.package] = _installed(wheel)
            updated.append(wheel.name.file_name)
        # A stable import order.
        self._installed = dict(sorted(self._installed.items()))
        return failures, updated

    async def _install(self, registry: WheelRegistry, wheel: StoredWheel) -> None:
        nuid = wheel.stored.nuid
        if await asyncio.to_thread(self._site.code_folder(nuid).is_dir):
            return
        file = await asyncio.to_thread(self._site.download_path, nuid, wheel.name.file_name)
        if not await asyncio.to_thread(file.is_file):
            await _download(registry, wheel, file)
        folder = await asyncio.to_thread(self._site.new_folder, nuid)
        await pip_install(file, folder, temporary=self._site.temporary, timeout_sec=self._timeout_sec)
        await asyncio.to_thread(self._site.commit, nuid, folder)

    def _drop_unselected(self, selection: WheelSelection) -> list[str]:
        selected = {wheel.name.package for wheel in selection.chosen}
        gone = [wheel for package, wheel in self._installed.items() if package not in selected]
        for wheel in gone:
            del self._installed[wheel.package]
        return [wheel.name for wheel in gone]

    def _find_missing_requirements(self) -> None:
        """Each time: a wheel may bring what another one has missed."""
        versions = {wheel.package: wheel.version for wheel in self._installed.values()}
        for wheel in self._installed.values():
            wheel.missing = missing_requirements(self._site.code_folder(wheel.nuid), versions)
            if wheel.missing:
                log.warning("%s requires what is not installed: %s", wheel.name, ", ".join(wheel.missing))

    def _report(self, selection: WheelSelection, updated: list[str], removed: list[str]) -> None:
        state = self.state
        chosen = [wheel.name.file_name for wheel in selection.chosen]
        state.selected_count, state.selected_wheels = len(chosen), chosen[:_MAX_LISTED]
        state.skipped_incompatible_count = len(selection.incompatible)
        state.skipped_incompatible = selection.incompatible[:_MAX_LISTED]
        state.installed_wheels = list(self._installed.values())[:_MAX_LISTED]
        if updated or removed:
            log.info("wheels installed: %s; removed: %s", updated or "none", removed or "none")
            state.last_synced_at = time.time()
            state.updated_count, state.updated_wheels = len(updated), updated[:_MAX_LISTED]
            state.removed_count, state.removed_wheels = len(removed), removed[:_MAX_LISTED]

    def _failed(self, reasons: list[str]) -> None:
        spec = Err.WHEEL_SYNC_FAILED
        self.state.last_result = WheelSyncResult.ERROR
        self.state.error = "; ".join(reasons)[:_MAX_ERROR_CHARS]
        log.error("%s: %s", spec.en, self.state.error, extra=spec.log_fields())


async def _download(registry: WheelRegistry, wheel: StoredWheel, file: Path) -> None:
    """Write the file only when it is complete and has the expected hash."""
    part = file.with_name(f"{file.name}.part")
    digest = hashlib.sha256()
    size = 0

    def write(out: BinaryIO, block: bytes) -> None:
        out.write(block)
        digest.update(block)

    with await asyncio.to_thread(part.open, "wb") as out:
        async for block in registry.read(wheel):
            await asyncio.to_thread(write, out, block)
            size += len(block)
    expected = wheel.stored.sha256
    if size != wheel.stored.size or (expected is not None and digest.digest() != expected):
        raise InstallFailed("its content differs from the upload (sha256); upload a new version")
    await asyncio.to_thread(part.replace, file)


def _installed(wheel: StoredWheel) -> InstalledWheel:
    return InstalledWheel(
        name=wheel.name.file_name,
        package=wheel.name.package,
        version=str(wheel.name.version),
        nuid=wheel.stored.nuid,
        sha256_hex=wheel.sha256_hex,
        installed_at=time.time(),
    )


@cache
def _own_tags() -> frozenset[Tag]:
    """Of interpreter, ABI and platform."""
    return frozenset(sys_tags())


def select(wheels: Iterable[StoredWheel], worker_tags: Sequence[str]) -> WheelSelection:
    """The newest compatible wheel of each package."""
    chosen: dict[str, StoredWheel] = {}
    incompatible: list[SkippedWheel] = []
    for wheel in wheels:
        if wheel.tags and not set(wheel.tags) & set(worker_tags):
            continue
        if (skipped := _incompatibility(wheel)) is not None:
            incompatible.append(skipped)
            continue
        package = wheel.name.package
        if package not in chosen or chosen[package].name.version < wheel.name.version:
            chosen[package] = wheel
    return WheelSelection([chosen[package] for package in sorted(chosen)], incompatible)


def _incompatibility(wheel: StoredWheel) -> SkippedWheel | None:
    """Why it cannot be installed here; None when it can."""
    name = wheel.name.file_name
    if not wheel.name.compatible_with & _own_tags():
        _, _, tags = name.removesuffix(".whl").split("-", 2)
        reason = f"this worker cannot install {tags}"
        return SkippedWheel(name=name, reason=reason, needs="platform", expected=tags)
    if not wheel.requires_python.contains(_OWN_PYTHON, prereleases=True):
        reason = f"it is for Python {wheel.requires_python}, and this worker has {_OWN_PYTHON}"
        return SkippedWheel(name=name, reason=reason, needs="python", expected=str(wheel.requires_python))
    return None


async def pip_install(wheel: Path, target: Path, *, temporary: Path, timeout_sec: float) -> None:
    """Install the wheel, without its dependencies, into the folder."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *_PIP, "install", *_OPTIONS, "--target", str(target), str(wheel)),
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=STDOUT,
        # On the same disk as the target, so that pip moves files instead of copying them.
        env={**environment_without_secrets(), "TMPDIR": str(temporary)},
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(timeout_sec):
            output, _ = await process.communicate()
    except TimeoutError:
        raise InstallFailed(
            f"pip took longer than {timeout_sec:g} s (PYOCO_WHEEL_INSTALL_TIMEOUT_SEC)"
        ) from None
    finally:
        await _kill(process)
    if process.returncode != 0:
        text = output[-_OUTPUT_BYTES:].decode("utf-8", "replace").strip()
        raise InstallFailed(f"pip ended with code {process.returncode}: {text}")


async def _kill(process: Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
