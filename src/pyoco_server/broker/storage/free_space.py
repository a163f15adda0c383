"""How much space NATS has left: on the disk of the embedded server, and within its limits."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.embedded.data_folder import ServerFolder, free_bytes
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.streams_and_buckets import resources
from pyoco_server.config import NatsBackendConfig

DISK: Final = "disk"
ACCOUNT: Final = "account"
# A small disk or limit: this part of it must be free.
_PART: Final = 0.1


@dataclass(frozen=True, slots=True)
class FreeSpace:
    # `disk`, `account`, or the name of a stream.
    of: str
    free_bytes: int
    limit_bytes: int

    def is_low(self, config: NatsBackendConfig) -> bool:
        return self.free_bytes < min(config.nats_free_bytes_warning, int(_PART * self.limit_bytes))

    def __str__(self) -> str:
        names = {DISK: "on its disk", ACCOUNT: "within the limit of its account"}
        where = names.get(self.of, f"within the limit of the stream {self.of}")
        return f"{in_units(self.free_bytes)} of {in_units(self.limit_bytes)} are left {where}"


def in_units(size: int) -> str:
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} bytes"


def local_data_folder(config: NatsBackendConfig) -> Path | None:
    """The data folder of the server that is connected to, if it is the embedded one of this machine."""
    holder = ServerFolder(Path(config.nats_data_dir)).holder()
    if holder is None or holder.url != config.nats_url or not holder.is_owner_alive():
        return None
    return Path(config.nats_data_dir)


async def free_space(connection: Connection) -> list[FreeSpace]:
    """Everything that is known to be limited; NatsUnavailable when NATS cannot be asked."""
    config = connection.config
    found = []
    folder = local_data_folder(config)
    if folder is not None:
        found.append(FreeSpace(DISK, free_bytes(folder), _total_bytes(folder)))
    try:
        account = await jetstream_api.call(connection, "INFO")
        found += _account_space(account)
        for stream in resources(config):
            found += _stream_space(await jetstream_api.call(connection, f"STREAM.INFO.{stream.name}"))
    except jetstream_api.ApiRefused as refused:
        raise connection.unavailable(str(refused)) from refused
    return found


def _total_bytes(folder: Path) -> int:
    disk = os.statvfs(folder)
    return disk.f_blocks * disk.f_frsize


def _account_space(info: dict[str, Any]) -> list[FreeSpace]:
    """The least space of its tiers: an account has one limit for each number of replicas, or one for all."""
    tiers = [info, *(info.get("tiers") or {}).values()]
    limited = [(tier["limits"]["max_storage"], tier.get("storage", 0)) for tier in tiers if "limits" in tier]
    spaces = [FreeSpace(ACCOUNT, max(0, limit - used), limit) for limit, used in limited if limit > 0]
    return sorted(spaces, key=lambda space: space.free_bytes)[:1]


def _stream_space(info: dict[str, Any]) -> list[FreeSpace]:
    """Of a stream that refuses new messages; the others remove the oldest."""
    config = info["config"]
    limit = config.get("max_bytes", -1)
    if limit <= 0 or config.get("discard") != "new":
        return []
    return [FreeSpace(config["name"], max(0, limit - info["state"]["bytes"]), limit)]
