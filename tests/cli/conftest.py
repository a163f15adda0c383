"""One gateway with a worker for all tests of commands that ignore the runs of other tests."""

from collections.abc import Iterator

import pytest

from pyoco_server.http_client import PyocoHttpClient
from tests.support.broker.connections import SyncConnection, sync_connection
from tests.support.broker.nats_server import NatsServer
from tests.support.commands import ClientCommand
from tests.support.places import FLOWS
from tests.support.programs import WORKER, running
from tests.support.running.gateway import gateway_beside
from tests.support.waiting import LIMIT_SEC, eventually_sync


@pytest.fixture(scope="session")
def shared_nats_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a server of its own: those of other accounts may end with a module."""
    server = NatsServer(tmp_path_factory.mktemp("commands-nats"))
    server.start()
    yield server.url
    server.kill()


@pytest.fixture(scope="session")
def shared_nats_connection(shared_nats_url: str) -> Iterator[SyncConnection]:
    with sync_connection(shared_nats_url) as connection:
        yield connection


@pytest.fixture(scope="session")
def server(shared_nats_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The gateway's address. Its worker executes runs of the tag `default`."""
    folder = tmp_path_factory.mktemp("commands")
    (folder / "noting.py").write_text("def note():\n    return 'noted'\n")
    with (
        gateway_beside(shared_nats_url, folder) as url,
        running(WORKER, "--flows", str(FLOWS), "--nats-url", shared_nats_url, cwd=folder),
        PyocoHttpClient(url) as http,
    ):
        eventually_sync(lambda: http.health()["index"]["ready"], describe="the index is ready")
        yield url


@pytest.fixture(scope="session")
def client(server: str) -> ClientCommand:
    return ClientCommand(server)


@pytest.fixture(scope="session")
def http(server: str) -> Iterator[PyocoHttpClient]:
    with PyocoHttpClient(server) as client:
        yield client


@pytest.fixture(scope="session")
def ended_run(http: PyocoHttpClient) -> str:
    """A completed run of the flow `chain`."""
    return http.wait(http.submit_run("chain", {"x": 4})["run_id"], LIMIT_SEC)["run_id"]
