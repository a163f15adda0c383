"""Fixtures for every test: a real NATS server with an account per test, and settings for tests."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
import uvloop
from hypothesis import HealthCheck, settings

from pyoco_server.broker.client.connection import Connection
from pyoco_server.config import NatsBackendConfig
from pyoco_server.worker import PyocoNatsWorker
from tests.support.broker.connections import connected
from tests.support.broker.nats_server import NatsServer
from tests.support.fork_server import fork_executors, fork_server
from tests.support.order import module_of, spread
from tests.support.programs import accept_ctrl_c
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.workers import serving_worker
from tests.support.settings import PatientConfig
from tests.support.waiting import LIMIT_SEC, NEVER_SEC

# The time of an example depends on the machine, so it has no deadline.
settings.register_profile(
    "any-machine", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any-machine")

ACCOUNTS = 2000  # a start with all of them takes 0.6 s


def pytest_configure() -> None:
    accept_ctrl_c()


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Tests run on the event loop of production."""
    return {"uvloop": uvloop.new_event_loop}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if processes > 1:
        items[:] = spread(items, processes, lambda item: module_of(item.nodeid))


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ignore the settings of the user who runs the tests."""
    for name in os.environ:
        if name.startswith(("PYOCO_", "AX_")):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session", autouse=True)
def _forked_executors() -> None:
    """Workers inside the test process do not start a new interpreter for each executor."""
    fork_executors(fork_server)


@pytest.fixture(scope="session")
def shared_nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """The server of this test session. Tests must not stop it; they use `own_nats` for that."""
    server = NatsServer(tmp_path_factory.mktemp("nats"), accounts=ACCOUNTS)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def _unused_accounts(shared_nats: NatsServer) -> Iterator[str]:
    return iter(shared_nats.account_urls)


def _next_account(unused: Iterator[str]) -> str:
    url = next(unused, None)
    assert url is not None, f"more than {ACCOUNTS} tests use an account: raise ACCOUNTS in tests/conftest.py"
    return url


@pytest.fixture
def nats_url(_unused_accounts: Iterator[str]) -> str:
    """An empty account on the shared server, so that a test can use the product's real names."""
    return _next_account(_unused_accounts)


@pytest.fixture
def own_nats(tmp_path: Path) -> Iterator[NatsServer]:
    """A started server of its own, to be killed and restarted."""
    server = NatsServer(tmp_path / "own-nats")
    server.start()
    yield server
    server.stop()


def _config(nats_url: str, folder: Path) -> NatsBackendConfig:
    """The defaults, with faster heartbeats and with all files below the folder.

    Timeouts for NATS, slow workers and runs never elapse, because a machine may stall. A test of one sets it.
    """
    return PatientConfig(
        nats_url=nats_url,
        nats_request_timeout_sec=LIMIT_SEC,
        nats_data_dir=str(folder / "nats"),
        run_dir=str(folder / "runs"),
        index_dir=str(folder / "index"),
        wheel_sync_dir=str(folder / "wheels"),
        audit_file=str(folder / "reports" / "audit_log.jsonl"),
        run_heartbeat_interval_sec=0.1,
        worker_heartbeat_interval_sec=0.2,
        worker_disconnect_timeout_sec=600.0,
        consumer_ack_wait_sec=NEVER_SEC,
        ack_progress_interval_sec=0.5,
        cancel_grace_period_sec=NEVER_SEC,
        drain_timeout_sec=NEVER_SEC,
        load_dotenv=False,
    )


@pytest.fixture
def config(nats_url: str, tmp_path: Path) -> NatsBackendConfig:
    """Settings with an account and a folder of the test's own."""
    return _config(nats_url, tmp_path)


@pytest.fixture
async def connection(config: NatsBackendConfig) -> AsyncIterator[Connection]:
    """A connection, with every stream and bucket created."""
    async with connected(config) as connection:
        yield connection


@pytest.fixture
async def gateway(config: NatsBackendConfig) -> AsyncIterator[RunningGateway]:
    """A gateway in the event loop and the account of the test, with NATS ready."""
    async with running_gateway(config) as running:
        yield running


# The same for all tests of a module, which then have `pytestmark = pytest.mark.asyncio(loop_scope="module")`.
# They must not stop or reconfigure anything, nor depend on which other records there are.


@pytest.fixture(scope="module")
def shared_config(
    _unused_accounts: Iterator[str], tmp_path_factory: pytest.TempPathFactory
) -> NatsBackendConfig:
    return _config(_next_account(_unused_accounts), tmp_path_factory.mktemp("shared"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_connection(shared_config: NatsBackendConfig) -> AsyncIterator[Connection]:
    async with connected(shared_config) as connection:
        yield connection


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_gateway(shared_config: NatsBackendConfig) -> AsyncIterator[RunningGateway]:
    async with running_gateway(shared_config) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_worker(shared_gateway: RunningGateway) -> AsyncIterator[PyocoNatsWorker]:
    """A worker with two slots, for all tests of a module that use `shared_gateway`."""
    async with serving_worker(shared_gateway.inside.config, concurrency=2) as worker:
        yield worker


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def working_gateway(
    _unused_accounts: Iterator[str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[RunningGateway]:
    """Like `shared_gateway`, in another account, with a worker that executes what is submitted."""
    config = _config(_next_account(_unused_accounts), tmp_path_factory.mktemp("working"))
    async with running_gateway(config) as running, serving_worker(config, tags=["default", "gpu"]):
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def own_gateway(config: NatsBackendConfig) -> AsyncIterator[RunningGateway]:
    """`gateway` for one test of a module whose other tests share one."""
    async with running_gateway(config) as running:
        yield running
