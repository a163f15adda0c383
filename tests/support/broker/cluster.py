"""A cluster of nats-servers on this machine, whose members are killed and restarted one by one."""

from pathlib import Path

from tests.support.broker.nats_server import NatsServer
from tests.support.ports import port_to_keep


class ClusterNode(NatsServer):
    """A member, with fixed route ports."""

    max_file_store = 10**11

    def __init__(self, data_dir: Path, name: str, route_port: int, route_ports: list[int]) -> None:
        super().__init__(data_dir)
        self.name = name
        self._route_port = route_port
        self._route_ports = route_ports

    def _configuration(self) -> dict[str, object]:
        return {
            **super()._configuration(),
            "server_name": self.name,
            "cluster": {
                "name": "pyoco-tests",
                "listen": f"127.0.0.1:{self._route_port}",
                "routes": [f"nats://127.0.0.1:{port}" for port in self._route_ports],
                "pool_size": -1,
            },
        }


class NatsCluster:
    """All members together; a client is given all of their addresses."""

    def __init__(self, data_dir: Path, size: int = 3) -> None:
        ports = [port_to_keep() for _ in range(size)]
        self.nodes = {
            f"node{number}": ClusterNode(data_dir / f"node{number}", f"node{number}", port, ports)
            for number, port in enumerate(ports, start=1)
        }

    @property
    def url(self) -> str:
        return ",".join(node.url for node in self.nodes.values())

    def start(self) -> None:
        """Start all; their leaders are elected a little later."""
        for node in self.nodes.values():
            node.start()

    def stop(self) -> None:
        for node in self.nodes.values():
            node.stop()
