"""Bringing one worker's wheels to what the registry says: what is new is installed, what is gone removed.

One wheel that cannot be installed does not hold up the others, and its package stays at the version it has.
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from pyoco_server.broker.jetstream.stream_reads import MessageInfo
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsUnavailable
from pyoco_server.errors.error_table import Err
from pyoco_server.records.models import InstalledWheel, SkippedWheel, WheelSyncResult, WheelSyncState
from pyoco_server.wheels.pip_install import InstallFailed, pip_install
from pyoco_server.wheels.wheel_registry import StoredWheel, WheelRegistry
from pyoco_server.wheels.wheel_selection import IncompatibleWheel, Selection, own_environment, select
from pyoco_server.wheels.wheel_site import FolderLocked, WheelSite

log = logging.getLogger(__name__)

# The worker's record is stored with every heartbeat.
_MAX_LISTED: Final = 100
_MAX_ERROR_CHARS: Final = 1000


class WheelSync:
    """What this worker has installed, and how the last synchronisation went."""

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
        # What of the registry everything was brought to. A sequence alone may be used again, by a registry
        # that was restored from a backup.
        self._newest: MessageInfo | None = None
        self._is_synchronised = False

    @property
    def folders(self) -> list[str]:
        """Where the executors find the code of the wheels."""
        return [str(self._site.code_folder(wheel.nuid)) for wheel in self._installed.values()]

    async def close(self) -> None:
        await asyncio.to_thread(self._site.close)

    async def run(self, registry: WheelRegistry) -> bool:
        """Synchronise; whether the code has changed. What goes wrong is in the state, and in the log."""
        self.state.last_attempt_at = time.time()
        try:
            failures, changed = await self._run(registry)
        except (NatsUnavailable, FolderLocked, OSError) as error:
            self._failed([str(error) or type(error).__name__])
            return False
        if failures:
            self._failed(failures)
        else:
            self.state.last_result, self.state.error = WheelSyncResult.OK, None
            self.state.last_success_at = time.time()
        return changed

    async def clean(self, in_use: Collection[str] = ()) -> None:
        """Remove the folders of wheels that are gone, but for those that something still runs from."""
        if self._is_open:
            wanted = [wheel.nuid for wheel in self._installed.values()]
            await asyncio.to_thread(
                self._site.remove_except, [*wanted, *(Path(path).name for path in in_use)]
            )

    async def _run(self, registry: WheelRegistry) -> tuple[list[str], bool]:
        await self._open()
        newest = await registry.newest_record()
        if self._is_synchronised and newest == self._newest:
            return [], False
        selection = select(await registry.all(), self._tags, own_environment())
        failures, updated = await self._install_new(registry, selection)
        removed = self._drop_unselected(selection)
        if updated or removed:
            await asyncio.to_thread(self._site.activate, self._installed.values())
        self._newest, self._is_synchronised = newest, not failures
        self._tell(selection, updated, removed)
        return failures, bool(updated or removed)

    async def _open(self) -> None:
        if not self._is_open:
            installed = await asyncio.to_thread(self._site.open)
            self._installed = {wheel.package: wheel for wheel in installed}
            self._is_open = True

    async def _install_new(
        self, registry: WheelRegistry, selection: Selection
    ) -> tuple[list[str], list[str]]:
        failures: list[str] = []
        updated: list[str] = []
        for wheel in selection.chosen:
            earlier = self._installed.get(wheel.name.package)
            if earlier is not None and earlier.nuid == wheel.stored.nuid:
                continue
            try:
                await self._install(registry, wheel)
            except (InstallFailed, NatsUnavailable, OSError) as error:
                stays = f"version {earlier.version} stays" if earlier else "the package is not there"
                failures.append(f"{wheel.name.file_name}: {error} ({stays})")
                continue
            self._installed[wheel.name.package] = _installed(wheel)
            updated.append(wheel.name.file_name)
        # On the path of imports in an order that does not depend on the past.
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
        await asyncio.to_thread(self._site.keep, nuid, folder)

    def _drop_unselected(self, selection: Selection) -> list[str]:
        wanted = {wheel.name.package for wheel in selection.chosen}
        gone = [wheel for package, wheel in self._installed.items() if package not in wanted]
        for wheel in gone:
            del self._installed[wheel.package]
        return [wheel.name for wheel in gone]

    def _tell(self, selection: Selection, updated: list[str], removed: list[str]) -> None:
        state = self.state
        chosen = [wheel.name.file_name for wheel in selection.chosen]
        state.selected_count, state.selected_wheels = len(chosen), chosen[:_MAX_LISTED]
        state.skipped_incompatible_count = len(selection.incompatible)
        state.skipped_incompatible = [_skipped(misfit) for misfit in selection.incompatible[:_MAX_LISTED]]
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
    """Have the wheel in the file, whole and as it was uploaded, or not at all."""
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
    wanted = wheel.stored.sha256
    if size != wheel.stored.size or (wanted is not None and digest.digest() != wanted):
        raise InstallFailed("its bytes are not those that were uploaded (sha256); upload a new version")
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


def _skipped(misfit: IncompatibleWheel) -> SkippedWheel:
    return SkippedWheel(name=misfit.wheel.name.file_name, reason=misfit.reason)
