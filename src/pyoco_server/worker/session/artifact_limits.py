"""Which files of a run there is room for."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pyoco_server.config import NatsBackendConfig
from pyoco_server.worker.artifacts.artifact_folder import FoundFile


@dataclass(frozen=True, slots=True)
class ArtifactLimits:
    file_bytes: int
    run_count: int
    run_bytes: int
    # 0: no limit.
    tenant_bytes: int

    @classmethod
    def of(cls, config: NatsBackendConfig) -> "ArtifactLimits":
        return cls(
            file_bytes=config.artifact_max_bytes,
            run_count=config.artifact_run_max_count,
            run_bytes=config.artifact_run_max_bytes,
            tenant_bytes=config.artifact_tenant_max_bytes,
        )

    def fitting(
        self,
        files: Iterable[FoundFile],
        stored: Mapping[str, int],
        *,
        tenant_used: int,
        leave_out: Callable[[FoundFile, str], None],
    ) -> list[FoundFile]:
        """Those that fit beside the stored ones, in their order; one that is stored already is replaced."""
        sizes = dict(stored)
        used = sum(sizes.values())
        fitting: list[FoundFile] = []
        for file in files:
            added = file.size - sizes.get(file.name, 0)
            count = len(sizes) + (file.name not in sizes)
            why = self._exceeded(file.size, count, used + added, tenant_used + added)
            if why is not None:
                leave_out(file, why)
                continue
            sizes[file.name] = file.size
            used += added
            tenant_used += added
            fitting.append(file)
        return fitting

    def _exceeded(self, file_bytes: int, count: int, run_bytes: int, tenant_bytes: int) -> str | None:
        if file_bytes > self.file_bytes:
            return f"it has {file_bytes} bytes, PYOCO_ARTIFACT_MAX_BYTES={self.file_bytes}"
        if count > self.run_count:
            return f"the run has no room for another file, PYOCO_ARTIFACT_RUN_MAX_COUNT={self.run_count}"
        if run_bytes > self.run_bytes:
            return f"the run would have {run_bytes} bytes, PYOCO_ARTIFACT_RUN_MAX_BYTES={self.run_bytes}"
        if self.tenant_bytes and tenant_bytes > self.tenant_bytes:
            limit = f"PYOCO_ARTIFACT_TENANT_MAX_BYTES={self.tenant_bytes}"
            return f"the runs of the tenant would have {tenant_bytes} bytes, {limit}"
        return None
