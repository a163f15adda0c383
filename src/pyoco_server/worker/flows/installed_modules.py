"""Which top-level modules came with Python, with the server or with its dependencies.

Nothing is imported to find out. A module of the standard library is recognised by its name or by where it
would be imported from; dependencies, those of the extras included, by the metadata of the distributions.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from typing import Final

_DISTRIBUTION: Final = "pyoco-server"
_THIRD_PARTY_FOLDERS: Final = frozenset({"site-packages", "dist-packages"})
_REQUIREMENT: Final = re.compile(r"\s*([\w.-]+)\s*(?:\[([^\]]*)\])?[^;]*;?(.*)", re.DOTALL)
_EXTRA_MARKER: Final = re.compile(r"""\bextra\s*==\s*['"]([^'"]+)['"]""")
_MODULE_FILE: Final = re.compile(r"([A-Za-z_]\w*)(?:/.*)?(?:\.(?:py|pyc|pyd|so)|\.[\w-]+\.(?:so|pyd))")


def is_standard_library(top: str) -> bool:
    """Whether a top-level module is part of Python, its tests and internal modules included."""
    if top in sys.stdlib_module_names or top in sys.builtin_module_names:
        return True
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):  # a module in sys.modules that was not imported from anywhere
        return False
    return spec is not None and (
        spec.origin in ("built-in", "frozen") or any(map(_is_below_python, _locations(spec)))
    )


def _locations(spec: ModuleSpec) -> list[str]:
    """A namespace package has folders instead of a file."""
    return [spec.origin] if spec.origin is not None else list(spec.submodule_search_locations or ())


def _is_below_python(path: str) -> bool:
    path = os.path.realpath(path)
    for folder in _python_folders():
        if path.startswith(folder):
            return path[len(folder) :].partition(os.sep)[0] not in _THIRD_PARTY_FOLDERS
    return False


@cache
def _python_folders() -> tuple[str, ...]:
    """Where the standard library is; in a virtual environment, that of the Python it was made with."""
    archive = f"python{sys.version_info.major}{sys.version_info.minor}.zip"
    folders = {
        os.path.dirname(os.__file__),
        sysconfig.get_path("stdlib"),
        sysconfig.get_path("platstdlib", vars={"platbase": sys.base_exec_prefix}),
        os.path.join(sys.base_prefix, sys.platlibdir, archive),
    }
    return tuple(os.path.join(os.path.realpath(folder), "") for folder in folders)


@cache
def modules_of_dependencies() -> frozenset[str] | None:
    """The top-level modules of everything that the server requires, with all extras that are installed.

    None if the server has no metadata, so that its dependencies are unknown.
    """
    try:
        server = metadata.distribution(_DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return None
    waiting = [(_DISTRIBUTION, extra) for extra in ("", *_header(server, "Provides-Extra"))]
    seen: set[tuple[str, str]] = set()
    found: dict[str, metadata.Distribution | None] = {}
    while waiting:
        name, extra = one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        if name not in found:
            found[name] = _distribution(name)
        if (distribution := found[name]) is not None:
            waiting += _required(distribution, extra)
    return frozenset(module for each in found.values() if each is not None for module in _top_level(each))


def _distribution(name: str) -> metadata.Distribution | None:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:  # of an extra, or for another platform
        return None


def _required(distribution: metadata.Distribution, extra: str) -> Iterator[tuple[str, str]]:
    """Pairs of a distribution and an extra of it. Platform markers are ignored: what is installed counts."""
    for line in _header(distribution, "Requires-Dist"):
        parts = _REQUIREMENT.fullmatch(line)
        if parts is None:
            continue
        name, extras, marker = parts.groups(default="")
        needed_by = _EXTRA_MARKER.findall(marker)
        if extra in needed_by if needed_by else not extra:
            canonical = re.sub(r"[-_.]+", "-", name).lower()
            yield canonical, ""
            yield from ((canonical, each.strip()) for each in extras.split(",") if each)


def _header(distribution: metadata.Distribution, name: str) -> list[str]:
    """The values of a header. `Distribution.metadata` would parse the readme as well, which takes longer."""
    head = (distribution.read_text("METADATA") or "").partition("\n\n")[0]
    return [line.partition(": ")[2] for line in head.splitlines() if line.startswith(f"{name}: ")]


def _top_level(distribution: metadata.Distribution) -> set[str]:
    """From the list of installed files; packages of an operating system may have only the list of names."""
    record = distribution.read_text("RECORD")
    if record is None:
        return set((distribution.read_text("top_level.txt") or "").split())
    files = (line.partition(",")[0].strip('"') for line in record.splitlines())
    return {found[1] for file in files if (found := _MODULE_FILE.fullmatch(file))} - {"__pycache__"}
