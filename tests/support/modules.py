"""Modules that a test writes and imports, and that are forgotten when it ends."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


class ModuleFolder:
    """A folder on the import path."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, name: str, text: str) -> Path:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def plugin(self, name: str, module: str, text: str) -> None:
        """An installed distribution with a hook in pyoco's entry-point group."""
        self.write(f"{module}.py", text)
        self.write(f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        self.write(f"{name}-1.0.dist-info/entry_points.txt", f"[pyoco.tasks]\n{name} = {module}:register\n")


@pytest.fixture
def forgotten_imports(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever the test imports, and wherever it imports from, is undone."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def modules(tmp_path: Path, forgotten_imports: None, monkeypatch: pytest.MonkeyPatch) -> ModuleFolder:
    folder = ModuleFolder(tmp_path / "modules")
    folder.path.mkdir()
    monkeypatch.syspath_prepend(folder.path)
    return folder
