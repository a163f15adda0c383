"""The settings of tests, some beyond their bounds: intervals that never elapse, very short timeouts."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from pyoco_server.config import NatsBackendConfig
from tests.support.waiting import LIMIT_SEC, NEVER_SEC


def config_for_tests(nats_url: str, folder: Path) -> NatsBackendConfig:
    """The defaults, with faster heartbeats and with all files below the folder.

    Timeouts for NATS, slow workers and runs never elapse, because a machine may stall. A test of one sets it.
    """
    return NatsBackendConfig(
        nats_url=nats_url,
        nats_request_timeout_sec=LIMIT_SEC,
        nats_data_dir=str(folder / "nats"),
        run_dir=str(folder / "runs"),
        index_dir=str(folder / "index"),
        wheel_sync_dir=str(folder / "wheels"),
        run_heartbeat_interval_sec=0.1,
        worker_heartbeat_interval_sec=0.2,
        worker_disconnect_timeout_sec=600.0,
        consumer_ack_wait_sec=NEVER_SEC,
        ack_progress_interval_sec=0.5,
        cancel_grace_period_sec=NEVER_SEC,
        drain_timeout_sec=NEVER_SEC,
        load_dotenv=False,
    )


def for_hanging_nats(config: NatsBackendConfig, url: str) -> NatsBackendConfig:
    """A copy with the request timeout of production, for a server that the test pauses."""
    return replace(config, nats_url=url, nats_request_timeout_sec=1.5)


def unchecked(config: NatsBackendConfig, **settings: Any) -> NatsBackendConfig:
    """A copy with other settings, of which no bound is checked."""
    copy = replace(config)
    for name, value in settings.items():
        assert hasattr(copy, name), f"there is no setting {name}"
        object.__setattr__(copy, name, value)
    return copy
