"""Rules about the tree: the size of folders, module names, and the lock file."""

import re
import tomllib
from collections import Counter

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.places import ROOT

MAX_FILES_PER_FOLDER = 22
# Who looks for schedules finds this word in each of them.
DIVIDED_BY_AREA = (
    "records",
    "broker/stores",
    "api/endpoints",
    "http_api/routes",
    "http_client",
    "cli/commands",
)


def test_folders_are_small() -> None:
    files = [path for folder in ("src", "tests") for path in (ROOT / folder).rglob("*.py")]
    sizes = Counter(path.parent.relative_to(ROOT).as_posix() for path in files)
    assert {folder: size for folder, size in sizes.items() if size > MAX_FILES_PER_FOLDER} == {}


def test_module_names_are_unique() -> None:
    modules = [path for path in (ROOT / "src").rglob("*.py") if path.stem != "__init__"]
    assert [name for name, count in Counter(path.stem for path in modules).items() if count > 1] == []


def test_areas_have_the_same_names_everywhere() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    listing = page.partition("A package that is divided by area")[2].split("```")[1]
    areas = set(re.findall(r"^  (\w+)/ ", listing, re.MULTILINE))
    source = ROOT / "src" / "pyoco_server"
    found = {
        package: {file.parent.name for file in (source / package).glob("*/__init__.py")}
        for package in DIVIDED_BY_AREA
    }
    assert {package: folders - areas for package, folders in found.items() if folders - areas} == {}
    # The queue of agent requests reads and writes their records as `KeyedRecords`.
    assert {area: missing for area in areas if (missing := {p for p in found if area not in found[p]})} == {
        "agent": {"broker/stores"}
    }


def test_every_folder_of_tests_is_described() -> None:
    """In the table of CONTRIBUTING.md that says which test goes where."""
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/__init__.py")} - {"flows", "support"}
    described = re.findall(
        r"^\| `tests/(\w+)` \|", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert sorted(described) == sorted(folders)


def test_every_direct_dependency_is_locked() -> None:
    """Fails after a change of pyproject.toml: run `make lock`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    declared = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    locked = dict(re.findall(r"^([\w.-]+)==(\S+)$", lock, re.MULTILINE))
    versions = {canonicalize_name(name): version for name, version in locked.items()}
    for requirement in map(Requirement, declared):
        if requirement.name != "pip":
            assert versions[canonicalize_name(requirement.name)] in requirement.specifier


def test_lock_file_names_no_host() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert all(line.startswith("#") or re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lock.splitlines())


def test_no_test_imports_the_mcp_package_when_it_is_collected() -> None:
    """It takes half a second, in each of the processes that collect all tests."""
    at_start = re.compile(
        r"^(from|import) (mcp|mcp_types|pyoco_server\.mcp_tools\.mcp_protocol)\b", re.MULTILINE
    )
    files = (ROOT / "tests").rglob("*.py")
    assert [file.name for file in files if at_start.search(file.read_text())] == []
