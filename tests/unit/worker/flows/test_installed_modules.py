"""What came with Python and with the server is recognised without an import."""

import os
import pkgutil
import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from pyoco_server.worker.flows import installed_modules
from pyoco_server.worker.flows.callable_policy import CallablePolicy, CallableRefused
from pyoco_server.worker.flows.installed_modules import is_standard_library, modules_of_dependencies
from tests.support.modules import ModuleFolder, importable_folder


@pytest.fixture
def modules(tmp_path: Path) -> Iterator[ModuleFolder]:
    with importable_folder(tmp_path / "modules") as folder:
        yield folder


@pytest.fixture
def fresh_dependencies() -> Iterator[None]:
    modules_of_dependencies.cache_clear()
    yield
    modules_of_dependencies.cache_clear()


class TestStandardLibrary:
    @pytest.mark.parametrize(
        "path",
        [
            "test.support:run_in_subinterp",
            "test.support.script_helper:make_script",
            "test.libregrtest.main:main",
            "_testcapi:run_in_subinterp",
            "_testinternalcapi:f",
            "_xxsubinterpreters:run_string",
            "_xxtestfuzz:run",
            "__hello__:main",
            "__phello__.spam:main",
            "_frozen_importlib:f",
            "os:system",
            "posix:system",
            "zipimport:f",
            "idlelib.run:main",
        ],
    )
    def test_a_callable_of_it_is_refused(self, path: str) -> None:
        for patterns in ("", "*", "*.support"):
            with pytest.raises(CallableRefused, match=r"standard library; .* PYOCO_CALLABLE_ALLOW="):
                CallablePolicy.parse(patterns).check(path)

    def test_nothing_is_imported_to_find_out(self) -> None:
        sys.modules.pop("_xxtestfuzz", None)
        assert is_standard_library("_xxtestfuzz")
        assert "_xxtestfuzz" not in sys.modules

    def test_every_module_in_its_folders_is_recognised(self) -> None:
        folder = os.path.dirname(os.__file__)
        found = {found.name for found in pkgutil.iter_modules([folder, os.path.join(folder, "lib-dynload")])}
        assert {"test", "_testcapi"} <= found
        assert [name for name in sorted(found) if not is_standard_library(name)] == []

    @pytest.mark.parametrize("top", ["yaml", "pytest", "tests", "no_such_module", "six"])
    def test_site_packages_and_unknown_modules_are_not_part_of_it(self, top: str) -> None:
        assert not is_standard_library(top)

    def test_a_package_of_the_user_that_replaces_a_test_package(self, modules: ModuleFolder) -> None:
        modules.write("_testcapi.py", "def f(): ...\n")
        assert not is_standard_library("_testcapi")

    def test_a_zipped_standard_library(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        archive = tmp_path / "python.zip"
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("zipped_part/__init__.py", "")
        monkeypatch.syspath_prepend(str(archive))
        assert not is_standard_library("zipped_part")
        monkeypatch.setattr(installed_modules, "_python_folders", lambda: (f"{archive}{os.sep}",))
        assert is_standard_library("zipped_part")

    def test_a_folder_without_code_of_its_own(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "spaces" / "inner").mkdir(parents=True)
        monkeypatch.syspath_prepend(str(tmp_path))
        assert not is_standard_library("spaces")
        monkeypatch.setattr(installed_modules, "_python_folders", lambda: (f"{tmp_path}{os.sep}",))
        assert is_standard_library("spaces")


class TestDependencies:
    def test_every_distribution_that_the_server_requires_is_refused(self) -> None:
        """Compared with the other way to find them: the parser and the file lists of `packaging`."""
        names = _required_distributions("pyoco-server")
        assert {"pyoco", "pyyaml", "pydantic-core", "h11", "requests", "pycparser", "protobuf"} <= set(names)
        refused = modules_of_dependencies()
        assert refused is not None
        for name, installed in names.items():
            files = [file for file in installed.files or () if file.suffix == ".py" and len(file.parts) > 1]
            tops = {file.parts[0] for file in files if file.parts[0].isidentifier()}
            assert tops <= refused, name

    def test_modules_of_every_kind_are_found(self) -> None:
        refused = modules_of_dependencies()
        assert refused is not None
        assert {"yaml", "_yaml", "_cffi_backend", "typing_extensions", "google", "nacl"} <= refused

    def test_what_the_server_does_not_require_is_not_refused(self) -> None:
        refused = modules_of_dependencies()
        assert refused is not None
        assert not {"pytest", "hypothesis", "mypy", "pyoco_server", "__pycache__"} & refused

    @pytest.mark.usefixtures("fresh_dependencies")
    def test_extras_of_a_dependency_count_only_if_they_are_required(
        self, modules: ModuleFolder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        requires = ["One.Part[fast]>=1; sys_platform == 'other'", "absent", "added; extra == 'more'"]
        _install(modules, "the-server", requires, extras=["more"])
        _install(modules, "one-part", ["speedy; extra == 'fast'", "slow; extra == 'slow' and 1 == 1"])
        for name in ("speedy", "slow", "added"):
            _install(modules, name, ["the-server"])
        monkeypatch.setattr(installed_modules, "_DISTRIBUTION", "the-server")
        assert modules_of_dependencies() == frozenset({"the_server", "one_part", "speedy", "added"})

    @pytest.mark.usefixtures("fresh_dependencies")
    def test_a_package_of_the_operating_system_has_only_its_names(
        self, modules: ModuleFolder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        modules.write("debianised-1.dist-info/METADATA", _metadata("debianised", []))
        modules.write("debianised-1.dist-info/top_level.txt", "_inner\ndebianised\n")
        monkeypatch.setattr(installed_modules, "_DISTRIBUTION", "debianised")
        assert modules_of_dependencies() == frozenset({"_inner", "debianised"})

    @pytest.mark.usefixtures("fresh_dependencies")
    def test_without_metadata_every_module_needs_a_pattern(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(installed_modules, "_DISTRIBUTION", "not-installed-anywhere")
        with pytest.raises(CallableRefused, match=r"no metadata .* PYOCO_CALLABLE_ALLOW=\*,mytasks "):
            CallablePolicy().check("mytasks:f")
        CallablePolicy.parse("*,mytasks").check("mytasks:f")


def _install(folder: ModuleFolder, name: str, requires: list[str], extras: list[str] | None = None) -> None:
    module = name.replace("-", "_")
    folder.write(f"{module}-1.dist-info/METADATA", _metadata(name, requires, extras or []))
    folder.write(f"{module}-1.dist-info/RECORD", f"{module}/__init__.py,,\n../../bin/{name},,\n")


def _metadata(name: str, requires: list[str], extras: list[str] | None = None) -> str:
    lines = ["Metadata-Version: 2.1", f"Name: {name}", "Version: 1"]
    lines += [f"Provides-Extra: {extra}" for extra in extras or ()]
    lines += [f"Requires-Dist: {each}" for each in requires]
    return "\n".join([*lines, "", "Requires-Dist: of-the-readme", ""])


def _required_distributions(name: str) -> dict[str, Distribution]:
    found: dict[str, Distribution] = {}
    seen = set[tuple[str, str]]()
    waiting = [(name, extra) for extra in ("", "otel", "nkeys")]
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        found[one[0]] = distribution(one[0])
        for required in map(Requirement, found[one[0]].requires or ()):
            if required.marker is None or required.marker.evaluate({"extra": one[1]}):
                waiting += [(canonicalize_name(required.name), extra) for extra in ("", *required.extras)]
    return found
