"""The client library reads and follows logs, also over a restart of the gateway."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from pyoco_server.http_client import PyocoHttpClient, PyocoHttpError
from pyoco_server.http_client.event_stream import ServerSentEvent
from pyoco_server.http_client.response_types import LogLine
from pyoco_server.records.runs.run_models import RunStatus
from tests.support.programs import SERVER, running
from tests.support.running.gateway import gateway_beside
from tests.support.running.printing_runs import SyncPrintingRun
from tests.support.waiting import LIMIT_SEC, eventually_sync

NO_RUN = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def at_nats(_unused_accounts: Iterator[str]) -> str:
    return next(_unused_accounts)


@pytest.fixture(scope="module")
def gateway_url(at_nats: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with gateway_beside(at_nats, tmp_path_factory.mktemp("gateway")) as url:
        yield url


@pytest.fixture
def client(gateway_url: str) -> Iterator[PyocoHttpClient]:
    with PyocoHttpClient(gateway_url) as client:
        eventually_sync(lambda: client.health()["nats"]["ready"], describe="NATS is ready")
        yield client


@pytest.fixture
def run(client: PyocoHttpClient, at_nats: str) -> SyncPrintingRun:
    return SyncPrintingRun(at_nats)


class Following:
    """A follower in a thread, and what it has received so far."""

    def __init__(self, client: PyocoHttpClient, run_id: str, **selected: Any) -> None:
        self.texts: list[str] = []
        self.ended_with: list[str | None] = []
        self._lines = client.follow_logs(run_id, **selected)
        self._thread = threading.Thread(target=self._follow)
        self._thread.start()

    def reads(self, *texts: str) -> None:
        eventually_sync(lambda: self.texts == list(texts), describe=f"lines {texts}")

    def ends(self) -> str | None:
        self._thread.join(LIMIT_SEC)
        assert not self._thread.is_alive()
        return self.ended_with[0]

    def _follow(self) -> None:
        def kept() -> Iterator[LogLine]:
            self.ended_with.append((yield from self._lines))

        for line in kept():
            self.texts.append(line["text"])


def test_a_page_and_all_pages(client: PyocoHttpClient, run: SyncPrintingRun) -> None:
    run.prints("a", "b")
    run.prints("c", stream="stderr", task="save")
    page = client.get_logs(run.run_id, limit=2)
    assert [line["text"] for line in page["lines"]] == ["a", "b"]
    page = client.get_logs(run.run_id, after=page["next_after"], task=["save"], stream=["stderr"], search="C")
    assert [line["text"] for line in page["lines"]] == ["c"]
    assert [line["text"] for line in client.iter_logs(run.run_id)] == ["a", "b", "c"]
    assert [line["text"] for line in client.iter_logs(run.run_id, task=["load"])] == ["a", "b"]
    first = client.get_logs(run.run_id)["lines"][0]["id"]
    assert [line["text"] for line in client.iter_logs(run.run_id, after=first)] == ["b", "c"]


def test_an_empty_log_has_no_lines(client: PyocoHttpClient, run: SyncPrintingRun) -> None:
    assert list(client.iter_logs(run.run_id)) == []


def test_a_log_is_followed_to_the_end_of_the_run(client: PyocoHttpClient, run: SyncPrintingRun) -> None:
    run.prints("a\u2028\x85 \r b")
    following = Following(client, run.run_id)
    following.reads("a\u2028\x85 \r b")
    run.prints("c")
    following.reads("a\u2028\x85 \r b", "c")
    run.ends(RunStatus.CANCELLED)
    assert following.ends() == "CANCELLED"


def test_following_takes_filters_and_a_position(client: PyocoHttpClient, run: SyncPrintingRun) -> None:
    run.prints("a", "b")
    run.prints("c", task="save")
    run.ends()
    first = client.get_logs(run.run_id)["lines"][0]["id"]
    assert [line["text"] for line in client.follow_logs(run.run_id, after=first)] == ["b", "c"]
    assert [line["text"] for line in client.follow_logs(run.run_id, task=["save"])] == ["c"]


def test_no_line_is_lost_or_repeated_over_a_restart_of_the_gateway(nats_url: str) -> None:
    gateway = (SERVER, "up", "--nats-url", nats_url, "--port")
    with running(*gateway, "0") as (first, facts):
        port = facts["url"].rpartition(":")[2]
        with PyocoHttpClient(facts["url"]) as client:
            run = SyncPrintingRun(nats_url)
            run.prints("a", "b")
            following = Following(client, run.run_id)
            following.reads("a", "b")
            first.process.kill()
            first.end()
            run.prints("c")
            with running(*gateway, port):
                following.reads("a", "b", "c")
                run.prints("d")
                run.ends()
                assert following.ends() == "COMPLETED"
                assert following.texts == ["a", "b", "c", "d"]


def test_following_an_unknown_run_is_a_404(client: PyocoHttpClient) -> None:
    with pytest.raises(PyocoHttpError) as refused:
        next(client.follow_logs(NO_RUN))
    assert (refused.value.status, refused.value.err_id) == (404, "ERR-PYOCO-0005")
    with pytest.raises(PyocoHttpError, match="expected the id of a line"):
        next(client.follow_logs(NO_RUN, after="nonsense"))


def test_a_silence_longer_than_the_timeout_does_not_end_a_stream(
    gateway_url: str, run: SyncPrintingRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections: list[str] = []
    events_of = PyocoHttpClient._events

    def counted(self: PyocoHttpClient, *asked: Any) -> Iterator[ServerSentEvent]:
        connections.append("one")
        return events_of(self, *asked)

    monkeypatch.setattr(PyocoHttpClient, "_events", counted)
    run.prints("a")
    with PyocoHttpClient(gateway_url, timeout=0.5) as client:
        following = Following(client, run.run_id)
        following.reads("a")
        time.sleep(1.5)  # the silence itself
        run.prints("b")
        run.ends()
        assert following.ends() == "COMPLETED"
    assert following.texts == ["a", "b"]
    assert len(connections) == 1
