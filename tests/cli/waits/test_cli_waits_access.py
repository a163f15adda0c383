"""Which API keys may answer through `pyoco-client`: those of the tenant, and those that are assigned."""

import asyncio
import json
import subprocess
from collections.abc import Iterator

import pytest

from pyoco_server.auth.scopes import Scope
from pyoco_server.config import NatsBackendConfig
from tests.support.broker.connections import connected
from tests.support.commands import call_client
from tests.support.programs import SERVER, running
from tests.support.running.api_keys import Key, new_key, revoke
from tests.support.running.waiting_runs import WaitingRun, waiting_run
from tests.support.waiting import eventually_sync


class Office:
    """A gateway that asks for keys; the tenant `acme` has runs that wait."""

    def __init__(self, url: str, config: NatsBackendConfig) -> None:
        self._url = url
        self._config = config
        self.ours, self.colleague, self.theirs = (self.key(tenant) for tenant in ("acme", "acme", "rival"))

    def key(self, tenant: str, *scopes: Scope) -> Key:
        return asyncio.run(new_key(self._config, tenant, scopes=scopes))

    def revoke(self, key: Key) -> None:
        asyncio.run(revoke(self._config, key))

    def ask(self, **wait: object) -> WaitingRun:
        async def write() -> WaitingRun:
            async with connected(self._config) as connection:
                return await waiting_run(connection, wait, tenant_id="acme")

        return asyncio.run(write())

    def client(self, key: Key, *arguments: str) -> subprocess.CompletedProcess[str]:
        return call_client(*arguments, PYOCO_SERVER=self._url, PYOCO_API_KEY=key.text)


@pytest.fixture(scope="module")
def office(_unused_accounts: Iterator[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    folder, nats_url = tmp_path_factory.mktemp("office"), next(_unused_accounts)
    config = NatsBackendConfig(nats_url=nats_url, load_dotenv=False)
    up = ("up", "--port", "0", "--nats-url", nats_url)
    with running(SERVER, *up, cwd=folder, PYOCO_HTTP_AUTH_MODE="api_key") as (_, facts):
        office = Office(facts["url"], config)

        def ready() -> bool:
            return office.client(office.ours, "waits").returncode == 0

        eventually_sync(ready, describe="the gateway knows the key and its index is ready")
        yield office


def test_another_tenant_sees_and_answers_nothing(office: Office) -> None:
    asked = office.ask()
    assert json.loads(office.client(office.theirs, "waits").stdout) == []
    for words, error in (
        (("resume", asked.run_id, "--json", "1"), "ERR-PYOCO-0005"),
        (("resume", "--wait-id", asked.wait_id, "--json", "1"), "ERR-PYOCO-0035"),
        (("waits", "--wait-id", asked.wait_id), "ERR-PYOCO-0035"),
        (("retry", asked.run_id), "ERR-PYOCO-0005"),
    ):
        done = office.client(office.theirs, *words)
        assert (done.returncode, error in done.stderr) == (1, True), done.stderr
    assert office.client(office.ours, "resume", asked.run_id, "--json", "1").returncode == 0


@pytest.mark.parametrize("by_wait", [True, False])
def test_only_who_is_named_answers(office: Office, by_wait: bool) -> None:
    asked = office.ask(assignees=[office.ours.key_id])
    which = ("--wait-id", asked.wait_id) if by_wait else (asked.run_id,)
    done = office.client(office.colleague, "resume", *which, "--json", "1")
    assert (done.returncode, "ERR-PYOCO-0040" in done.stderr) == (1, True), done.stderr
    assert office.client(office.ours, "resume", *which, "--json", "1").returncode == 0
    wait = json.loads(office.client(office.ours, "waits", "--wait-id", asked.wait_id).stdout)
    assert wait["decided_by"]["api_key_id"] == office.ours.key_id
    refused = [event for event in wait["events"] if event["kind"] == "refused"]
    assert [event["actor"]["api_key_id"] for event in refused] == [office.colleague.key_id]


def test_a_key_that_only_reads_does_not_answer(office: Office) -> None:
    asked, reader = office.ask(), office.key("acme", Scope.READ)

    def known() -> bool:
        return office.client(reader, "waits", "--wait-id", asked.wait_id).returncode == 0

    eventually_sync(known, describe="the gateway knows the key")
    done = office.client(reader, "resume", asked.run_id, "--json", "1")
    assert (done.returncode, "ERR-PYOCO-0032" in done.stderr) == (1, True), done.stderr


@pytest.mark.parametrize("by_wait", [True, False])
def test_an_approver_answers_and_does_nothing_else(office: Office, by_wait: bool) -> None:
    asked, approver = office.ask(), office.key("acme", Scope.ANSWER)

    def known() -> bool:
        return office.client(approver, "waits", "--wait-id", asked.wait_id).returncode == 0

    eventually_sync(known, describe="the gateway knows the key")
    run = ("--run-id", asked.run_id)
    for words in (("cancel", *run), ("rerun", *run), ("worker", "--worker-id", "w1", "--pause"), ("list",)):
        done = office.client(approver, *words)
        assert (done.returncode, "ERR-PYOCO-0032" in done.stderr) == (1, True), done.stderr
    which = ("--wait-id", asked.wait_id) if by_wait else (asked.run_id,)
    assert office.client(approver, "resume", *which, "--json", "1").returncode == 0


def test_a_revoked_key_does_not_answer(office: Office) -> None:
    asked, key = office.ask(), office.key("acme")

    def code_and_error() -> tuple[int, bool]:
        done = office.client(key, "waits")
        assert key.text not in done.stdout + done.stderr
        return done.returncode, "ERR-PYOCO-0015" in done.stderr

    eventually_sync(lambda: code_and_error() == (0, False), describe="the key is known")
    office.revoke(key)
    eventually_sync(lambda: code_and_error() == (1, True), describe="the key is revoked")
    assert office.client(key, "resume", asked.run_id, "--json", "1").returncode == 1
    assert office.client(key, "resume", "--wait-id", asked.wait_id, "--json", "1").returncode == 1
    assert office.client(office.ours, "resume", asked.run_id, "--json", "1").returncode == 0
