"""The configuration file of the embedded nats-server."""

import json
from pathlib import Path

_LOG_LIMIT_BYTES = 10_000_000


def server_config(folder: Path, log_path: Path, *, listen: str, monitor: str, monitor_path: str) -> str:
    """`monitor` is where the server reports its health, below `monitor_path`."""
    configuration = {
        "server_name": "pyoco-embedded",
        "listen": listen,
        "ports_file_dir": str(folder),
        "log_file": str(log_path),
        "logfile_size_limit": _LOG_LIMIT_BYTES,
        "logfile_max_num": 2,
        # The default is two minutes between an acknowledgement and the sync to disk; one second is free.
        "jetstream": {"store_dir": str(folder), "sync_interval": "1s"},
        "http": monitor,
        "http_base_path": monitor_path,
    }
    # nats-server reads JSON, but not its \u escapes.
    return json.dumps(configuration, indent=2, ensure_ascii=False) + "\n"
