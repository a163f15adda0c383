"""Modules that a test writes and imports, and that are unloaded when it ends."""

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class ModuleFolder:
    """A folder on the import path."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, name: str, text: str) -> Path:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        importlib.invalidate_caches()
        return file

    def plugin(self, name: str, module: str, text: str) -> None:
        """An installed distribution with a hook in pyoco's entry-point group."""
        self.write(f"{module}.py", text)
        self.write(f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        self.write(f"{name}-1.0.dist-info/entry_points.txt", f"[pyoco.tasks]\n{name} = {module}:register\n")


@contextmanager
def forgotten_imports(folder: Path) -> Iterator[None]:
    """What is imported from the folder inside, and whatever is put on the import path, is undone."""
    path = list(sys.path)
    try:
        yield
    finally:
        sys.path[:] = path
        for name, module in list(sys.modules.items()):
            if (getattr(module, "__file__", None) or "").startswith(f"{folder}{os.sep}"):
                del sys.modules[name]


@contextmanager
def importable_folder(path: Path) -> Iterator[ModuleFolder]:
    path.mkdir()
    with forgotten_imports(path):
        sys.path.insert(0, str(path))
        yield ModuleFolder(path)
