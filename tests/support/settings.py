"""Settings beyond their bounds: intervals that never elapse, timeouts that a user may not set."""

from dataclasses import replace
from typing import Any, Final

from pyoco_server.config import NatsBackendConfig
from pyoco_server.config.settings_table import SETTINGS
from tests.support.waiting import LIMIT_SEC

REQUEST_TIMEOUT: Final = "nats_request_timeout_sec"
_LONGEST_OF_USERS_SEC: Final = 2.0


class PatientConfig(NatsBackendConfig):
    """Settings whose requests to NATS may take as long as a machine may stall.

    Users may not wait that long: a gateway answers within 2 s while NATS hangs.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        timeout_sec = self.nats_request_timeout_sec
        object.__setattr__(self, REQUEST_TIMEOUT, min(timeout_sec, _LONGEST_OF_USERS_SEC))
        super().__post_init__()
        object.__setattr__(self, REQUEST_TIMEOUT, timeout_sec)


def allow_patient_programs() -> None:
    """Accept the same timeout from the environment, in a process that only starts programs of tests."""
    [row] = [row for row in SETTINGS if row.field == REQUEST_TIMEOUT]
    object.__setattr__(row, "maximum", LIMIT_SEC)


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
