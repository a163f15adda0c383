"""The gateway starts its services in order and closes them in reverse."""

from pathlib import Path

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.gateway import Gateway
from pyoco_server.http_api.services import ServiceGroup


class RecordingService:
    def __init__(self, gateway: Gateway, name: str, calls: list[str]) -> None:
        self._gateway = gateway
        self._name = name
        self._calls = calls

    async def start(self) -> None:
        self._calls.append(f"start {self._name}")
        if self._name == "broken":
            raise OSError("no disk")

    async def close(self) -> None:
        assert self._gateway.stopping.is_set() or "start broken" in self._calls
        self._calls.append(f"close {self._name}")


def gateway_with(tmp_path: Path, calls: list[str], *names: str) -> Gateway:
    gateway = Gateway(NatsBackendConfig(load_dotenv=False, index_dir=str(tmp_path)))
    gateway._start_order = [RecordingService(gateway, name, calls) for name in names]
    return gateway


async def test_services_are_closed_in_reverse_order(tmp_path: Path) -> None:
    calls: list[str] = []
    async with gateway_with(tmp_path, calls, "a", "b").running():
        assert calls == ["start a", "start b"]
    assert calls[2:] == ["close b", "close a"]


async def test_the_parts_of_a_service_are_closed_in_reverse_order(tmp_path: Path) -> None:
    calls: list[str] = []
    gateway = gateway_with(tmp_path, calls)
    group = ServiceGroup()
    group.parts = (RecordingService(gateway, "a", calls), RecordingService(gateway, "b", calls))
    gateway._start_order = [group]
    async with gateway.running():
        assert calls == ["start a", "start b"]
    assert calls[2:] == ["close b", "close a"]


async def test_a_failed_start_closes_the_started_services(tmp_path: Path) -> None:
    calls: list[str] = []
    with pytest.raises(OSError, match="no disk"):
        async with gateway_with(tmp_path, calls, "a", "broken", "c").running():
            pytest.fail("it must not start")
    assert calls == ["start a", "start broken", "close broken", "close a"]
