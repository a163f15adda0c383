"""Private names of dependencies are used by their adapters only."""

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Final

import pytest

import pyoco_server

_SRC: Final = Path(pyoco_server.__file__).parent

# Modules and folders, below `pyoco_server`.
_ADAPTERS: Final = (
    "broker/client/direct_client.py",  # nats-py
    "worker/engine/pyoco_adapter.py",
    "http_api/server/uvicorn_adapter.py",
    "http_api/server/socket_protocol.py",  # uvicorn
)
# Modules that are internal although their names are not.
_INTERNAL_MODULES: Final = ("uvicorn.protocols",)
# Documented names that begin with an underscore.
_PUBLIC: Final = {"_exit", "_make", "_replace", "_asdict", "_fields", "_missing_", "_name_", "_value_"}


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in _PUBLIC


def _own_names(trees: dict[str, ast.Module]) -> set[str]:
    """Every name that is defined in `pyoco_server`."""
    names: set[str] = set()
    for tree in trees.values():
        for node in ast.walk(tree):
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    names.add(name)
                case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                    names.add(name)
                case ast.Name(id=name, ctx=ast.Store()):
                    names.add(name)
    return names


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                yield from (alias.name for alias in aliases)
            case ast.ImportFrom(module=str(module), names=aliases):
                yield from (f"{module}.{alias.name}" for alias in aliases)


def _private_uses(tree: ast.AST, own: set[str]) -> Iterator[str]:
    for name in _imported(tree):
        is_foreign = not name.startswith("pyoco_server")
        if is_foreign and (any(map(_is_private, name.split("."))) or name.startswith(_INTERNAL_MODULES)):
            yield name
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_private(node.attr) and node.attr not in own:
            yield f"line {node.lineno}: {node.attr}"


def test_private_names_are_used_by_adapters_only() -> None:
    trees = {
        path.relative_to(_SRC).as_posix(): ast.parse(path.read_text("utf-8")) for path in _SRC.rglob("*.py")
    }
    own = _own_names(trees)
    found = {
        path: uses
        for path, tree in trees.items()
        if not path.startswith(_ADAPTERS) and (uses := list(_private_uses(tree, own)))
    }
    assert found == {}


def _overridden(kind: type) -> Iterator[str]:
    """Private names of a base class of a dependency that this class defines too."""
    for base in kind.__mro__[1:]:
        if not base.__module__.startswith("pyoco_server"):
            yield from filter(_is_private, vars(base).keys() & vars(kind).keys())


def test_private_names_are_overridden_by_adapters_only() -> None:
    found: dict[str, list[str]] = {}
    for module in walk_packages([str(_SRC)], "pyoco_server."):
        path = module.name.removeprefix("pyoco_server.").replace(".", "/")
        if module.name.endswith("__main__") or f"{path}.py".startswith(_ADAPTERS):
            continue
        for kind in vars(import_module(module.name)).values():
            # An abstract class and an enumeration have private names that Python sets.
            is_plain = isinstance(kind, type) and type(kind) is type
            if is_plain and kind.__module__ == module.name and (names := list(_overridden(kind))):
                found[f"{module.name}.{kind.__name__}"] = names
    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        "from starlette._utils import get_route_path",
        "from uvicorn.protocols.http.httptools_impl import STATUS_LINE",
        "import msgspec._core",
        "client._ps.state = 1",
    ],
)
def test_a_private_name_is_found(source: str) -> None:
    assert list(_private_uses(ast.parse(source), own=set()))
