"""README and docs: commands and links exist, flows can be loaded, both READMEs have one structure."""

import re
import shlex
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.runs.flow_yaml import check_flow_yaml
from pyoco_server.worker.flows.callable_policy import CallablePolicy
from pyoco_server.worker.flows.flow_files import FlowFolder
from pyoco_server.worker.flows.yaml_flow import build_yaml_flow
from tests.support.modules import ModuleFolder, forgotten_imports
from tests.support.places import ROOT

PAGES = [*sorted(ROOT.glob("README*.md")), *sorted((ROOT / "docs").glob("*.md"))]

BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
# A program may follow a prompt, settings or its path.
COMMAND = re.compile(
    r"^ *(?:\$ |ExecStart=)?(?:[A-Z_]+=\S+ )*(?:\S*/)?((?:pyoco-[a-z-]+|make) .+)$", re.MULTILINE
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(text_of(page))


def prose(page: Path) -> str:
    return BLOCK.sub("", text_of(page))


def written_commands() -> list[str]:
    found = (COMMAND.findall(text) for page in PAGES for _, text in blocks(page))
    return sorted({line for lines in found for line in lines})


def files_in(page: Path, suffix: str) -> dict[str, str]:
    """The files on a page: their blocks start with a comment that names them."""
    found = (re.match(rf"# (\S+\.{suffix})\n", text) for _, text in blocks(page))
    return {match[1]: match.string for match in found if match}


def parsed(command: Any, words: list[str]) -> tuple[dict[str, Any], list[str]]:
    """The options of a command line and its remaining words; raises a usage error."""
    options, rest, _ = command.make_parser(command.context_class(command)).parse_args(words)
    missing = [option.opts[0] for option in command.params if option.required and option.name not in options]
    assert not missing
    return options, rest


def check_command(line: str, commands: dict[str, Any]) -> None:
    program, *words = shlex.split(line, comments=True)
    if program == "make":
        targets = re.findall(r"^([a-z-]+):", text_of(ROOT / "Makefile"), re.MULTILINE)
        assert {word for word in words if "=" not in word} <= set(targets), line
        return
    _, rest = parsed(commands[program], words)
    while rest:
        program, words = f"{program} {rest[0]}", rest[1:]
        _, rest = parsed(commands[program], words)


def test_the_commands_on_the_pages_exist() -> None:
    # Imported here, and not by each process that collects the tests: it takes a second.
    commands = dict(import_module("tools.docs.pages").all_commands())
    lines = written_commands()
    for line in lines:
        check_command(line, commands)
    for program in ("make", "pyoco-server", "pyoco-client", "pyoco-worker"):
        assert any(line.startswith(f"{program} ") for line in lines)


def anchors(page: Path) -> set[str]:
    """The anchors of a page, as GitHub derives them from headings."""
    titles = (title.lower().replace(" ", "-") for _, title in HEADING.findall(prose(page)))
    return {re.sub(r"[^\w-]", "", title) for title in titles}


def test_relative_links_exist() -> None:
    for page in PAGES:
        for link in LINK.findall(prose(page)):
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), f"{page}: {link}"
            assert not anchor or anchor in anchors(target), f"{page}: {link}"


def test_the_index_lists_every_page() -> None:
    index = ROOT / "docs" / "index.md"
    listed = [link for link in LINK.findall(text_of(index)) if "/" not in link]
    assert sorted(listed) == sorted(page.name for page in index.parent.glob("*.md") if page != index)


def test_the_architecture_page_names_every_package() -> None:
    page = text_of(ROOT / "docs" / "architecture.md")
    source = ROOT / "src" / "pyoco_server"
    packages = {file.parent.name for file in source.rglob("__init__.py")} - {source.name}
    assert {name for name in packages if f" {name}/ " not in page} == set()


def test_the_places_of_where_is_exist() -> None:
    """A file is named from `src/pyoco_server` or the root on, or beside the last folder that was named."""
    missing = []
    for row in text_of(ROOT / "docs" / "where-is.md").splitlines():
        folder = ROOT
        for name in re.findall(r"`([\w./-]+\.(?:py|tsx?|json|md))`", row.partition(" | ")[2]):
            found = [place / name for place in (ROOT / "src" / "pyoco_server", ROOT, folder)]
            existing = next((path for path in found if path.exists()), None)
            if existing is None:
                missing.append(name)
            else:
                folder = existing.parent
    assert missing == []


def code(page: Path) -> list[tuple[str, str]]:
    """The code blocks without the comments of commands, which are translated."""
    return [(lang, re.sub(r" +# .*", "", text) if lang == "sh" else text) for lang, text in blocks(page)]


def test_both_readmes_have_the_same_structure() -> None:
    english, japanese = ROOT / "README.md", ROOT / "README.ja.md"
    levels = [[level for level, _ in HEADING.findall(prose(page))] for page in (english, japanese)]
    assert levels[0] == levels[1]
    assert code(japanese) == code(english)
    linked = {link.replace("-ja.png", ".png") for link in LINK.findall(text_of(japanese))}
    assert linked - {"README.md"} == set(LINK.findall(text_of(english))) - {"README.ja.md"}


@pytest.mark.parametrize("name", ["README.md", "docs/quickstart.md"])
def test_the_flows_on_a_page_can_be_loaded(name: str, tmp_path: Path) -> None:
    with forgotten_imports(tmp_path):
        folder = ModuleFolder(tmp_path)
        for file, source in files_in(ROOT / name, "py").items():
            folder.write(file, source)
        flows = FlowFolder(tmp_path / "flows")
        flows.load()
        assert "hello" in flows.names
        assert flows.failures == {}
        files = files_in(ROOT / name, "yaml")
        assert files
        for source in files.values():
            flow, _ = build_yaml_flow(source.encode(), "on_the_page", CallablePolicy())
            assert set(check_flow_yaml(source.encode()).tasks) == {task.name for task in flow.tasks}
