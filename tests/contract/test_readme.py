"""The pages that people read first: their commands exist, their links lead somewhere, their flows load."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.runs.flow_yaml import check_flow_yaml
from pyoco_server.worker.flows.callable_policy import CallablePolicy
from pyoco_server.worker.flows.flow_files import FlowFolder
from pyoco_server.worker.flows.yaml_flow import build_yaml_flow
from tests.support.modules import ModuleFolder, forgotten_imports
from tests.support.places import ROOT
from tests.unit.cli.test_cli_usage import commands

PAGES = [*sorted(ROOT.glob("README*.md")), *sorted((ROOT / "docs").glob("*.md"))]

BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
# What may stand before the name of a program: a prompt, settings, the way to it.
COMMAND = re.compile(
    r"^ *(?:\$ |ExecStart=)?(?:[A-Z_]+=\S+ )*(?:\S*/)?((?:pyoco-[a-z-]+|make) .+)$", re.MULTILINE
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
COMMANDS = dict(commands())


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(page: Path) -> list[tuple[str, str]]:
    """The code blocks of a page, each with its language."""
    return BLOCK.findall(text_of(page))


def prose(page: Path) -> str:
    return BLOCK.sub("", text_of(page))


def relative(page: Path) -> str:
    return str(page.relative_to(ROOT))


def written_commands() -> list[str]:
    found = (COMMAND.findall(code) for page in PAGES for _, code in blocks(page))
    return sorted({line for lines in found for line in lines})


def files_in(page: Path, suffix: str) -> dict[str, str]:
    """The files that a page tells to write: their blocks begin with a comment that names them."""
    found = (re.match(rf"# (\S+\.{suffix})\n", code) for _, code in blocks(page))
    return {match[1]: match.string for match in found if match}


def parsed(command: Any, words: list[str]) -> tuple[dict[str, Any], list[str]]:
    """The options of a command line and what is left of it; a usage error says what the command lacks."""
    options, rest, _ = command.make_parser(command.context_class(command)).parse_args(words)
    lacking = [option.opts[0] for option in command.params if option.required and option.name not in options]
    assert not lacking
    return options, rest


@pytest.mark.parametrize("line", written_commands())
def test_a_command_on_a_page_is_one_that_exists(line: str) -> None:
    program, *words = shlex.split(line, comments=True)
    if program == "make":
        targets = re.findall(r"^([a-z-]+):", text_of(ROOT / "Makefile"), re.MULTILINE)
        assert {word for word in words if "=" not in word} <= set(targets)
        return
    _, rest = parsed(COMMANDS[program], words)
    while rest:
        program, words = f"{program} {rest[0]}", rest[1:]
        _, rest = parsed(COMMANDS[program], words)
    assert not rest


def test_the_commands_of_the_first_steps_are_found() -> None:
    for program in ("make", "pyoco-server", "pyoco-client", "pyoco-worker"):
        assert any(line.startswith(f"{program} ") for line in written_commands())


def anchors(page: Path) -> set[str]:
    """What may follow the # of a link to the page, as code forges derive it from headings."""
    titles = (title.lower().replace(" ", "-") for _, title in HEADING.findall(prose(page)))
    return {re.sub(r"[^\w-]", "", title) for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for link in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_the_table_of_contents_has_every_page() -> None:
    index = ROOT / "docs" / "index.md"
    listed = [link for link in LINK.findall(text_of(index)) if "/" not in link]
    assert sorted(listed) == sorted(page.name for page in index.parent.glob("*.md") if page != index)


def test_the_japanese_readme_is_built_like_the_english_one() -> None:
    english, japanese = ROOT / "README.md", ROOT / "README.ja.md"
    levels = [[level for level, _ in HEADING.findall(prose(page))] for page in (english, japanese)]
    assert levels[0] == levels[1]
    assert blocks(japanese) == blocks(english)
    # Some pictures are of the Japanese dashboard.
    linked = {link.replace("-ja.png", ".png") for link in LINK.findall(text_of(japanese))}
    assert linked - {"README.md"} == set(LINK.findall(text_of(english))) - {"README.ja.md"}


@pytest.mark.parametrize("name", ["README.md", "docs/quickstart.md"])
def test_the_flows_on_a_page_can_be_run(name: str, tmp_path: Path) -> None:
    with forgotten_imports(tmp_path):
        folder = ModuleFolder(tmp_path)
        for file, code in files_in(ROOT / name, "py").items():
            folder.write(file, code)
        flows = FlowFolder(tmp_path / "flows")
        flows.load()
        assert "hello" in flows.names
        assert flows.failures == {}
        files = files_in(ROOT / name, "yaml")
        assert files
        for source in files.values():
            flow, _ = build_yaml_flow(source.encode(), "on_the_page", CallablePolicy())
            assert set(check_flow_yaml(source.encode()).tasks) == {task.name for task in flow.tasks}
