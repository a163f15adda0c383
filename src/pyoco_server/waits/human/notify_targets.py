"""The receivers of notifications: the default one, and those that a question or its flow chooses by name.

A task gives a name and never a URL: only the operator decides which addresses a gateway connects to.
"""

from fnmatch import fnmatchcase

from pyoco_server.config import NatsBackendConfig
from pyoco_server.config.setting import named_values
from pyoco_server.notify.webhook_target import Target
from pyoco_server.records.waits.wait_models import WaitEventKind, WaitRecord


class NotifyTargets:
    def __init__(self, config: NatsBackendConfig) -> None:
        secrets = _pairs(config.notify_target_secrets)
        self._default = Target(config.notify_url, config.notify_secret) if config.notify_url else None
        self._named = {
            name: Target(url, secrets.get(name, config.notify_secret))
            for name, url in _pairs(config.notify_targets).items()
        }
        self._by_flow = _pairs(config.notify_flow_targets)

    def __bool__(self) -> bool:
        return self._default is not None or bool(self._named)

    def target_of(self, wait: WaitRecord, kind: WaitEventKind) -> tuple[Target | None, str | None]:
        """The receiver, and None; for a name that is not configured, the default receiver and that name."""
        name = wait.notify or self._of_flow(wait.flow_name)
        if kind is WaitEventKind.ESCALATED:
            name = wait.escalate_to or name
        if name is None:
            return self._default, None
        found = self._named.get(name)
        return (self._default, name) if found is None else (found, None)

    def _of_flow(self, flow_name: str) -> str | None:
        return next((name for flow, name in self._by_flow.items() if fnmatchcase(flow_name, flow)), None)


def _pairs(text: str) -> dict[str, str]:
    return named_values(text) if text else {}
