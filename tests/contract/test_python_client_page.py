"""docs/python-client.md: its programs run, and its tables are complete."""

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyoco_server import PyocoNatsClient
from pyoco_server.http_client import AsyncPyocoHttpClient, PyocoHttpClient
from tests.contract.test_readme import blocks
from tests.support.places import ROOT
from tests.support.programs import SERVER, WORKER, running, started
from tests.support.waiting import eventually_sync

PAGE = ROOT / "docs" / "python-client.md"
PROGRAMS = [code for language, code in blocks(PAGE) if language == "python"]
PRINTED = [
    *("say_hello Hello, Ada!", "COMPLETED", "runs of greet", "one more greeting"),
    *("0 questions are open", "0 runs failed", "422"),
]
CLOSING = {"close", "aclose"}


@pytest.fixture(scope="module")
def nats_url(_unused_accounts: Iterator[str]) -> str:
    return next(_unused_accounts)


@pytest.fixture(scope="module")
def gateway_url(nats_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("page")
    flows = str(ROOT / "examples" / "flows")
    with (
        running(SERVER, "up", "--port", "0", "--nats-url", nats_url, cwd=folder) as (_, gateway),
        running(WORKER, "--flows", flows, "--nats-url", nats_url, cwd=folder),
        PyocoHttpClient(gateway["url"]) as client,
    ):
        eventually_sync(lambda: client.health()["index"]["ready"], describe="the index is ready")
        yield gateway["url"]


def test_every_program_runs_and_prints_the_expected_text(
    gateway_url: str, nats_url: str, tmp_path: Path
) -> None:
    """In one interpreter: what it costs to start each is not tested here."""
    for number, program in enumerate(PROGRAMS):
        code = program.replace("http://127.0.0.1:8000", gateway_url)
        # The last one needs no gateway: it reads the settings of one.
        assert code != program or "from_env()" in program
        (tmp_path / f"program_{number}.py").write_text(code)
    paths = list(map(str, sorted(tmp_path.glob("program_*.py"))))
    run_all = "import runpy, sys\nfor path in sys.argv[1:]: runpy.run_path(path, run_name='__main__')"
    with started([sys.executable, "-c", run_all, *paths], PYOCO_NATS_URL=nats_url) as process:
        assert process.end() == 0, process.stderr
    for text in PRINTED:
        assert text in process.stdout


def public_methods(client: type) -> dict[str, inspect.Signature]:
    found = inspect.getmembers(client, inspect.isfunction)
    return {
        name: inspect.signature(method)
        for name, method in found
        if not name.startswith("_") and name not in CLOSING
    }


def test_both_clients_have_the_same_methods_with_the_same_parameters() -> None:
    sync, asynchronous = public_methods(PyocoHttpClient), public_methods(AsyncPyocoHttpClient)
    assert list(sync) == list(asynchronous)
    for name, signature in sync.items():
        parameters = [
            [(each.name, each.kind, each.default) for each in found.parameters.values()]
            for found in (signature, asynchronous[name])
        ]
        assert parameters[0] == parameters[1], name


def test_every_method_has_a_docstring() -> None:
    for client in (PyocoHttpClient, AsyncPyocoHttpClient):
        for name in public_methods(client):
            method = getattr(client, name)
            assert method.__doc__, name
            assert method.__name__ == name


def test_the_table_of_methods_is_complete() -> None:
    named = named_methods("## Methods", "## Answering questions")
    methods = public_methods(PyocoHttpClient)
    assert sorted(named) == sorted(methods)
    for name, signature in methods.items():
        # Filters are named in the text, or written out.
        written_out = {each.name for each in signature.parameters.values() if each.kind != each.VAR_KEYWORD}
        assert written_out - {"self"} <= named[name], name


def test_the_table_of_the_client_without_a_gateway_is_complete() -> None:
    named = named_methods("## Without a gateway")
    methods = public_methods(PyocoNatsClient)
    assert sorted(named.keys() - {"connect", "close"}) == sorted(methods)
    for name, signature in methods.items():
        same = inspect.signature(getattr(PyocoHttpClient, name))
        assert list(signature.parameters) == list(same.parameters), name


def test_the_table_of_refused_answers_is_complete() -> None:
    """It leaves out what is not about answers."""
    api = (ROOT / "docs" / "http-api.md").read_text(encoding="utf-8")
    table = api[api.index("| `error` | |") :].split("\n\n")[0]
    others = {"error", "invalid_request", "unavailable", "busy", "unauthorized", "forbidden", "rate_limited"}
    words = {word for row in table.splitlines() for word in re.findall("`([a-z_]+)`", row.split("|")[1])}
    named = re.findall(r"^\| `([a-z_]+)` \| \d", section("## Answering questions"), re.MULTILINE)
    assert sorted(named) == sorted(words - others)


def section(begin: str, end: str | None = None) -> str:
    page = PAGE.read_text(encoding="utf-8")
    return page[page.index(begin) : None if end is None else page.index(end)]


def named_methods(begin: str, end: str | None = None) -> dict[str, set[str]]:
    """The methods in the tables of a section, with the names of their parameters."""
    rows = re.findall(r"^\| (`[a-z_]+\(.*\)`) \|", section(begin, end), re.MULTILINE)
    found = [each for row in rows for each in re.findall(r"`([a-z_]+)\(([^`]*)\)`", row)]
    assert len(dict(found)) == len(found), "a method is named twice"
    return {name: set(re.findall("[a-z_]+", parameters)) for name, parameters in found}


def test_the_table_of_arguments_is_complete() -> None:
    named = re.findall(r"^\| `([a-z_]+)` \|", section("## The client", "## Methods"), re.MULTILINE)
    for client in (PyocoHttpClient, AsyncPyocoHttpClient):
        assert named == list(inspect.signature(client).parameters)
