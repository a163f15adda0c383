"""Fixtures for every test: a real NATS server with an account per test, and settings for tests."""

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import pytest_asyncio
import uvloop
from hypothesis import HealthCheck, settings

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import bucket_feed
from pyoco_server.config import NatsBackendConfig
from pyoco_server.worker import PyocoNatsWorker
from tests.support.broker.accounts import Accounts
from tests.support.broker.connections import connected, empty
from tests.support.broker.nats_server import NatsServer
from tests.support.forks.fork_server import fork_executors, fork_server
from tests.support.order import module_of, spread
from tests.support.programs import accept_ctrl_c
from tests.support.running.gateway import RunningGateway, flow_is, running_gateway
from tests.support.running.workers import serving_worker
from tests.support.settings import PatientConfig
from tests.support.waiting import LIMIT_SEC, NEVER_SEC

# The time of an example depends on the machine, so it has no deadline.
settings.register_profile(
    "any-machine", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any-machine")


def pytest_configure() -> None:
    accept_ctrl_c()


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Tests run on the event loop of production."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Tests and modules are kept to the end: no search for garbage looks at them, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


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


@pytest.fixture(scope="session", autouse=True)
def _complete_lists() -> Iterator[None]:
    """A list has what was stored before the request, however slow the machine is.

    Lists wait so long for their copy of a bucket, and are then answered from one that lags.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bucket_feed, "_CATCH_UP_SEC", LIMIT_SEC)
        yield


@pytest.fixture(scope="session")
def _unused_accounts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Accounts]:
    """On servers of this test process. Tests must not stop them; they use `own_nats` for that."""
    with closing(Accounts(lambda: tmp_path_factory.mktemp("nats"))) as accounts:
        yield accounts


@pytest.fixture(scope="module", autouse=True)
def _accounts_of_a_module(_unused_accounts: Accounts) -> Iterator[None]:
    """No test uses an account of an earlier module."""
    yield
    _unused_accounts.end_used_up()


@pytest.fixture
def nats_url(_unused_accounts: Iterator[str]) -> str:
    """An empty account on a shared server, so that a test can use the product's real names."""
    return next(_unused_accounts)


@pytest.fixture
def own_nats(tmp_path: Path) -> Iterator[NatsServer]:
    """A server of its own, to be killed and restarted."""
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
    return _config(next(_unused_accounts), tmp_path_factory.mktemp("shared"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_connection(shared_config: NatsBackendConfig) -> AsyncIterator[Connection]:
    async with connected(shared_config) as connection:
        yield connection


@pytest_asyncio.fixture(loop_scope="module")
async def empty_connection(shared_connection: Connection) -> AsyncIterator[Connection]:
    """`shared_connection` with empty streams and buckets, whose sequences go on from test to test."""
    yield shared_connection
    await empty(shared_connection)


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
    config = _config(next(_unused_accounts), tmp_path_factory.mktemp("working"))
    async with running_gateway(config) as running, serving_worker(config, tags=["default", "gpu"]):
        # The worker takes runs before the gateway has read which flows it has.
        await flow_is(running, "chain")
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def own_gateway(config: NatsBackendConfig) -> AsyncIterator[RunningGateway]:
    """`gateway` for one test of a module whose other tests share one."""
    async with running_gateway(config) as running:
        yield running
