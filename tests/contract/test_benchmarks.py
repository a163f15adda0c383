"""The rules of the benchmarks: ratios, verdicts, notes about missing measurements, the page."""

import asyncio
import importlib.util
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from benchmarks.comparison.measures import FEW_RUNS, Figures, Session, centiles
from benchmarks.comparison.rounds import _one
from benchmarks.harness import http_load
from benchmarks.harness.environments import NotMeasured, server_program
from benchmarks.harness.processes import descendants, memory_use, running
from benchmarks.peers import PEERS
from benchmarks.peers.peer import Work
from benchmarks.report import page, tables
from benchmarks.report.figures import SHOWN, Figure
from benchmarks.report.results import PeerResult, Results
from benchmarks.report.targets import TARGETS, verdicts

from tests.support.places import ROOT
from tests.support.processes import is_alive
from tests.support.waiting import eventually

PROGRAMS = ROOT / "benchmarks" / "peers" / "programs"


def results(**medians: Figures) -> Results:
    found = [PeerResult(name, name.title(), rounds=[figures]) for name, figures in medians.items()]
    return Results("today", {"cores": 2}, 1, False, found)


def by_name(found: Results) -> dict[str, tuple[str, str]]:
    return {verdict.target: (verdict.reached, verdict.verdict) for verdict in verdicts(found)}


@pytest.mark.parametrize(
    ("better", "ours", "theirs", "advantage"),
    [
        ("more", 600.0, 200.0, 3.0),
        ("less", 2.0, 8.0, 4.0),
        ("less", 8.0, 2.0, 0.25),
        ("less", 1.0, 0.0, None),
    ],
)
def test_an_advantage_is_above_one_when_ours_is_better(
    better: Any, ours: float, theirs: float, advantage: float | None
) -> None:
    assert Figure("f", "f", better).advantage(ours, theirs) == advantage


@pytest.mark.parametrize(("ours", "word"), [(1200.0, "met"), (1199.0, "NOT met")])
def test_a_ratio_is_met_from_the_factor_on(ours: float, word: str) -> None:
    found = results(ours={"noop_runs_per_s": ours}, public={"noop_runs_per_s": 200.0})
    assert by_name(found)["no-op runs/s (2,000) at least 6× public"][1] == word


@pytest.mark.parametrize(("ours", "word"), [(0.479, "met"), (0.48, "NOT met")])
def test_a_limit_is_met_below_it(ours: float, word: str) -> None:
    assert by_name(results(ours={"chain_s": ours}))["40 tasks of 10 ms under 0.48 s"][1] == word


def test_a_target_that_one_round_misses_is_told_with_its_rounds() -> None:
    found = results(ours={}, public={})
    found.rounds = 3
    found.peers[0].rounds = [{"submits_per_s": 4100.0}, {"submits_per_s": 3900.0}, {"submits_per_s": 4200.0}]
    found.peers[1].rounds = [{"submits_per_s": 1000.0}] * 3
    target = f"submits/s ({FEW_RUNS:,}) at least 4× public"
    [verdict] = [each for each in verdicts(found) if each.target == target]
    assert (verdict.reached, verdict.spread) == ("4.10×", "3.90× to 4.20×")
    assert verdict.verdict == "met, not in every round"


def test_a_target_without_its_figures_is_told_as_not_measured() -> None:
    found = by_name(results(ours={"noop_runs_per_s": 5000.0}))
    assert found["no-op runs/s (2,000) at least 3× celery"] == ("", "not measured")
    assert len(found) == len(TARGETS)


def test_medians_are_of_the_rounds_that_were_measured() -> None:
    peer = PeerResult("ours", "Ours", rounds=[{"chain_s": 0.5}, {"chain_s": 0.4}, {}, {"chain_s": 0.41}])
    assert peer.medians == {"chain_s": 0.41}


def test_parts_are_added_up_and_growth_is_a_ratio() -> None:
    figures = {
        "noop_runs_per_s": 1000.0,
        "noop_runs_per_s_sustained": 900.0,
        "worker_total_mb": 100.0,
        "gateway_total_mb": 50.0,
        "worker_cpu_ms_per_run": 1.0,
        "broker_cpu_ms_per_run": 0.5,
    }
    medians = PeerResult("ours", "Ours", rounds=[figures]).medians
    assert (medians["growth"], medians["total_mb"], medians["cpu_ms_per_run"]) == (0.9, 150.0, 1.5)


def test_a_peers_cell_has_the_advantage_of_ours_and_a_missing_figure_has_a_dash() -> None:
    table = tables.comparison(
        results(ours={"submits_per_s": 4000.0}, public={"submits_per_s": 1000.0}, dbos={})
    )
    assert table.header == ["", "Ours", "Public", "Dbos"]
    assert table.rows == [["submits/s, 32 connections", "4,000", "1,000 (4.0×)", "–"]]


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    found = results(ours={"chain_s": 0.4375})
    found.peers[0].not_measured["large flow"] = "no time"
    found.write(tmp_path / "deep" / "results.json")
    assert Results.read(tmp_path / "deep" / "results.json") == found


async def test_a_measure_that_fails_is_told_and_does_not_stop_the_others() -> None:
    async def failing(peer: object, folder: Path) -> Figures:
        raise ExceptionGroup("load", [NotMeasured("the queue is on fire")])

    async def endless(peer: object, folder: Path) -> Figures:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()
        return {}

    found = PeerResult("ours", "Ours", rounds=[{}])
    assert await _one(Session("a", failing, 1), PEERS[0], found) == "not measured: the queue is on fire"
    assert (
        await _one(Session("b", endless, 1), PEERS[0], found)
        == "not measured: TimeoutError at the time limit"
    )
    assert found.not_measured.keys() == {"a", "b"}


def test_a_missing_server_program_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(NotMeasured, match="apt-get install no-such-package"):
        server_program("no-such-program", "no-such-package")


def test_centiles_are_in_milliseconds() -> None:
    assert centiles("submit", [0.001] * 200) == {"submit_p50_ms": 1.0, "submit_p99_ms": 1.0}


@asynccontextmanager
async def answering(*pieces: bytes) -> AsyncIterator[int]:
    """The port of a gateway that answers every request with these bytes, piece by piece."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with closing(writer):
            while await _asked(reader):
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@asynccontextmanager
async def closing(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    yield
    writer.close()
    await writer.wait_closed()


async def _asked(reader: asyncio.StreamReader) -> bool:
    try:
        return bool(await reader.readuntil(b"{}"))
    except asyncio.IncompleteReadError:
        return False


async def test_the_load_submits_what_was_asked_for_over_its_connections() -> None:
    async with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n", b'{"run_id": ', b'"r"}') as port:
        done = await http_load.submit(port, {}, runs=25, connections=4, limit_sec=10)
    assert (done.submitted, done.run_ids) == (25, ["r"] * 25)


async def test_the_load_ends_with_its_time() -> None:
    async with answering() as port:
        assert (await http_load.submit(port, {}, runs=25, connections=4, limit_sec=-1)).submitted == 0


async def test_a_refused_submit_is_an_error_with_the_answer() -> None:
    async with answering(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy") as port:
        connection = await http_load.HttpConnection.open(port)
        with pytest.raises(http_load.RequestRefused, match=r"503 Service Unavailable.*busy"):
            await connection.post("/runs", {})
        connection.close()


async def test_a_process_is_weighed_and_ended_with_its_children(tmp_path: Path) -> None:
    async with running(
        ["sh", "-c", "sleep 60 & echo started; wait"], log=tmp_path / "log", piped=True
    ) as process:
        assert process.stdout is not None
        await process.stdout.readline()
        (child,) = descendants(process.pid)
        used = memory_use([process.pid])
        assert used.main_mb > 0
        assert used.child_mb > 0
    await eventually(lambda: not is_alive(child), describe="the end of the child")


@pytest.fixture
def driving() -> ModuleType:
    """Imported by its file: a peer's Python runs it so."""
    spec = importlib.util.spec_from_file_location("driving", PROGRAMS / "driving.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Library:
    def __init__(self, *, losing: int = 0) -> None:
        self.losing = losing
        self.enqueued = 0
        self.flows = 0

    def function(self) -> None:
        self.enqueued += 1

    def flow(self) -> None:
        self.enqueued += 1
        self.flows += 1

    def finished(self) -> int:
        return max(0, self.enqueued - self.losing)


def test_a_driver_waits_for_what_it_has_submitted(driving: ModuleType) -> None:
    driver = driving.Driver(Library())
    assert len(driver.submit(runs=100, connections=8, limit_sec=10, work="flow")["latencies"]) == 100
    assert driver.wait(limit_sec=10) == {"missing": 0}


def test_a_driver_tells_what_is_missing_when_the_time_is_up(driving: ModuleType) -> None:
    driver = driving.Driver(Library(losing=3))
    driver.submit(runs=10, connections=2, limit_sec=10, work="flow")
    assert driver.wait(limit_sec=0.05) == {"missing": 3}


def test_a_driver_submits_nothing_more_when_the_time_is_up(driving: ModuleType) -> None:
    driver = driving.Driver(Library())
    assert driver.submit(runs=10, connections=2, limit_sec=-1, work="flow")["latencies"] == []


@pytest.mark.parametrize(("work", "flows"), [(Work.FLOW, 10), (Work.FUNCTION, 0)])
def test_a_driver_enqueues_the_kind_of_work_that_is_asked_for(
    driving: ModuleType, work: Work, flows: int
) -> None:
    library = Library()
    driving.Driver(library).submit(runs=10, connections=1, limit_sec=10, work=work.value)
    assert (library.enqueued, library.flows) == (10, flows)


def test_a_server_of_flows_is_compared_with_bare_functions_by_its_flows() -> None:
    assert PeerResult("ours", "Ours", rounds=[{"noop_runs_per_s": 1.0}]).medians["functions_per_s"] == 1.0
    library = PeerResult("celery", "Celery", rounds=[{"noop_runs_per_s": 1.0, "functions_per_s": 2.0}])
    assert library.medians["functions_per_s"] == 2.0


def test_every_peer_says_what_its_figures_are_worth() -> None:
    assert PEERS[0].name == "ours"
    for peer in PEERS:
        assert all((peer.title, peer.setup, peer.durability, peer.done))


def test_figures_have_keys_and_labels_of_their_own() -> None:
    assert len({figure.key for figure in SHOWN}) == len({figure.label for figure in SHOWN}) == len(SHOWN)


def test_the_page_shows_the_stored_results() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    made = text[text.index(page.BEGIN) : text.index(page.END) + len(page.END)]
    if page.LATEST.exists():
        assert made == page.made_part(Results.read(page.LATEST))
        assert page.PICTURE.exists()
    else:
        assert made == f"{page.BEGIN}\n{page.END}"
