"""Settings beyond their bounds: intervals that never elapse, timeouts shorter than a user may set."""

from dataclasses import replace
from typing import Any

from pyoco_server.config import NatsBackendConfig


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
