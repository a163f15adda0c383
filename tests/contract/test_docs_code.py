"""Every code block of README.md and docs/ runs here, or says before it why it cannot."""

import configparser
import json
import subprocess
from pathlib import Path

import pytest
import yaml

from pyoco_server.broker.embedded.embedded_server import find_nats_server
from pyoco_server.runs.flow_yaml import check_flow_yaml
from pyoco_server.worker.flows.flow_files import FlowFolder
from tests.support.docs.code_blocks import CodeBlock, code_blocks
from tests.support.docs.doc_session import doc_session
from tests.support.modules import forgotten_imports
from tests.support.places import DOCS, ROOT

# Pages that are generated or whose programs run elsewhere, with the module of their test.
TESTED_ELSEWHERE = {
    "commands.md": "test_generated_docs",
    "errors.md": "test_generated_docs",
    "http-api.md": "test_docs_http_api",
    "metrics.md": "test_generated_docs",
    "python-client.md": "test_python_client_page",
    "settings.md": "test_generated_docs",
}
# README.ja.md has the blocks of README.md (test_readme.py).
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
# Its programs are those that a user gets; those of the other pages are forks, which start in less time.
AS_INSTALLED = "README.md"
CODE = {"python", "sh", "console"}
SHORTEST_REASON = 10


def is_file(block: CodeBlock) -> bool:
    return block.language == "yaml" and block.file_name is not None


def unexplained(page: Path) -> list[CodeBlock]:
    if page.name in TESTED_ELSEWHERE:
        return []
    return [block for block in code_blocks(page) if block.excerpt is None]


def check_data(block: CodeBlock) -> None:
    """A block that is no program: text, or data in a known format."""
    match block.language:
        case "text" if block.file_name == "nats.conf":
            check_nats_config(block.text)
        case "text":
            pass
        case "json":
            json.loads(block.text)
        case "ini":
            configparser.RawConfigParser(strict=False).read_string(block.text)
        case "yaml" if "flow" in (yaml.safe_load(block.text) or {}):
            check_flow_yaml(block.text.encode())
        case "yaml":
            assert yaml.safe_load(block.text)
        case other:
            raise AssertionError(f"a block of {other!r} neither runs nor has an <!-- excerpt: reason -->")


def check_nats_config(text: str) -> None:
    done = subprocess.run(
        [find_nats_server(), "-t", "-c", "/dev/stdin"],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_data_has_the_format_that_it_claims(page: Path) -> None:
    for block in unexplained(page):
        if block.language not in CODE:
            try:
                check_data(block)
            except Exception as error:
                raise AssertionError(f"{block.place}: {error}") from error


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_excerpts_have_a_reason(page: Path) -> None:
    for block in code_blocks(page):
        assert block.excerpt is None or len(block.excerpt) >= SHORTEST_REASON, block.place


def test_pages_that_are_tested_elsewhere_exist() -> None:
    for page, module in TESTED_ELSEWHERE.items():
        assert (DOCS / page).is_file()
        assert (Path(__file__).parent / f"{module}.py").is_file()


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if any(block.language in CODE for block in unexplained(page))],
    ids=lambda page: page.name,
)
def test_the_page_can_be_followed_in_an_empty_folder(page: Path, tmp_path: Path) -> None:
    with doc_session(tmp_path / "my-project", as_installed=page.name == AS_INSTALLED) as session:
        for block in unexplained(page):
            if block.language in CODE or is_file(block):
                session.follow(block)
        check_flows(session.folder / "flows")


def check_flows(folder: Path) -> None:
    """Also those that no command of the page submits."""
    if folder.is_dir():
        with forgotten_imports(folder):
            flows = FlowFolder(folder)
            flows.load()
            assert flows.failures == {}
