"""The client library reads and follows logs: over pages, and over gateways that come and go."""

import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pyoco_server.http_api.streams.sse import KEEPALIVE_SEC
from pyoco_server.http_client import GatewayUnreachable, PyocoHttpClient, PyocoHttpError
from pyoco_server.http_client import retry_policy as patience
from pyoco_server.http_client.event_stream import SILENCE_LIMIT_SEC, ServerSentEvent
from pyoco_server.http_client.response_types import LogLine
from pyoco_server.records.models import RunStatus
from tests.support.http_stub import answer, stub
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
    """A follower in a thread of its own, and what it has got so far."""

    def __init__(self, client: PyocoHttpClient, run_id: str, **wanted: Any) -> None:
        self.texts: list[str] = []
        self.ended_with: list[str | None] = []
        self._lines = client.follow_logs(run_id, **wanted)
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


def test_all_pages_of_an_empty_log_are_none(client: PyocoHttpClient, run: SyncPrintingRun) -> None:
    assert list(client.iter_logs(run.run_id)) == []


def test_paging_asks_until_nothing_new_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page without lines is no end: a search may need many of them."""

    def page(lines: list[str], next_after: str, complete: bool) -> tuple[int, str, str]:
        return answer(lines=[{"text": text} for text in lines], next_after=next_after, complete=complete)

    pages = [page(["a"], "1-0", False), page([], "9-0", False), page(["b"], "12-0", False)]
    with stub([*pages, page([], "12-0", False)]) as (url, seen), PyocoHttpClient(url) as client:
        assert [line["text"] for line in client.iter_logs(NO_RUN)] == ["a", "b"]
        assert len(seen) == 4


def test_a_log_is_followed_to_the_end_of_the_run(client: PyocoHttpClient, run: SyncPrintingRun) -> None:
    run.prints("a\u2028\x85 \r b")
    following = Following(client, run.run_id)
    following.reads("a\u2028\x85 \r b")
    run.prints("c")
    following.reads("a\u2028\x85 \r b", "c")
    run.ends(RunStatus.CANCELLED)
    assert following.ends() == "CANCELLED"


def test_following_takes_filters_and_a_place_to_begin(client: PyocoHttpClient, run: SyncPrintingRun) -> None:
    run.prints("a", "b")
    run.prints("c", task="save")
    run.ends()
    first = client.get_logs(run.run_id)["lines"][0]["id"]
    assert [line["text"] for line in client.follow_logs(run.run_id, after=first)] == ["b", "c"]
    assert [line["text"] for line in client.follow_logs(run.run_id, task=["save"])] == ["c"]


def test_a_gateway_that_restarts_is_waited_for_and_no_line_is_lost_or_told_twice(nats_url: str) -> None:
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


def test_no_run_is_an_error_at_once(client: PyocoHttpClient) -> None:
    with pytest.raises(PyocoHttpError) as refused:
        next(client.follow_logs(NO_RUN))
    assert (refused.value.status, refused.value.err_id) == (404, "ERR-PYOCO-0005")
    with pytest.raises(PyocoHttpError, match="wanted the id of a line"):
        next(client.follow_logs(NO_RUN, after="nonsense"))


def run_out_of_patience(monkeypatch: pytest.MonkeyPatch, seen: list[dict[str, str]]) -> None:
    """Have an hour pass for a client as soon as it has asked twice."""
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + (3600 if len(seen) > 1 else 0))
    monkeypatch.setattr(patience, "time", clock)


def test_what_is_no_gateway_is_recognised_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        stub([(200, "text/html", "<html>")]) as (url, seen),
        PyocoHttpClient(url, patience_sec=600) as client,
    ):
        run_out_of_patience(monkeypatch, seen)
        with pytest.raises(GatewayUnreachable, match=r"no pyoco-server gateway .*text/html"):
            next(client.follow_logs(NO_RUN))
    assert len(seen) > 1
    assert seen[0]["accept"] == "text/event-stream"


def test_a_gateway_that_never_comes_back_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    line = 'id: 7-0\nevent: line\ndata: {"text": "a"}\n\n'
    with stub([(200, "text/event-stream", line), (503, "text/plain", "away")]) as (url, seen):
        run_out_of_patience(monkeypatch, seen)
        with PyocoHttpClient(url, patience_sec=600) as client:
            lines = client.follow_logs(NO_RUN)
            assert next(lines)["text"] == "a"
            with pytest.raises(PyocoHttpError, match="503"):
                next(lines)
        assert seen[1]["last-event-id"] == "7-0"


def test_a_client_is_more_patient_than_the_silence_of_a_gateway_that_is_well() -> None:
    assert SILENCE_LIMIT_SEC >= 2 * KEEPALIVE_SEC


def test_following_outlasts_a_silence_that_is_too_long_for_any_other_answer(
    gateway_url: str, run: SyncPrintingRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[str] = []
    events_of = PyocoHttpClient._events

    def counted(self: PyocoHttpClient, *asked: Any) -> Iterator[ServerSentEvent]:
        answers.append("one")
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
    assert len(answers) == 1
