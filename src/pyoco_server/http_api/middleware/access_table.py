"""Which scope each endpoint needs: the one table. A test fails for a route that is not in it.

Reading what can be operated on is for those who operate as well; `admin` stands for every scope.
"""

import re
from dataclasses import dataclass
from typing import Final

from starlette.types import Scope as ConnectionScope

from pyoco_server.auth.scopes import Scope


@dataclass(frozen=True, slots=True)
class Access:
    """Who may use an endpoint."""

    path: str
    # Any one of them is enough; none: everybody, without a key.
    scopes: frozenset[Scope] = frozenset()

    @property
    def public(self) -> bool:
        return not self.scopes

    def allows(self, scopes: frozenset[Scope]) -> bool:
        return self.public or not self.scopes.isdisjoint(scopes) or Scope.ADMIN in scopes

    @property
    def wanted(self) -> list[str]:
        return [scope.value for scope in Scope if scope in self.scopes]


_PUBLIC: Final[tuple[Scope, ...]] = ()
_SUBMIT: Final = (Scope.SUBMIT,)
_READ: Final = (Scope.READ,)
_OPERATE: Final = (Scope.OPERATE,)
_LOOK: Final = (Scope.READ, Scope.OPERATE)
_WHEELS: Final = (Scope.WHEELS,)

_SCOPES: Final[dict[tuple[str, str], tuple[Scope, ...]]] = {
    ("GET", "/"): _PUBLIC,
    ("GET", "/static/{path:path}"): _PUBLIC,
    ("GET", "/openapi.json"): _PUBLIC,
    ("GET", "/health"): _PUBLIC,
    ("POST", "/runs"): _SUBMIT,
    ("POST", "/runs/yaml"): _SUBMIT,
    ("GET", "/runs"): _READ,
    ("GET", "/runs/watch"): _READ,
    ("GET", "/runs/{run_id}"): _READ,
    ("GET", "/runs/{run_id}/tasks"): _READ,
    ("GET", "/runs/{run_id}/watch"): _READ,
    ("GET", "/runs/{run_id}/logs"): _READ,
    ("GET", "/runs/{run_id}/explain"): _READ,
    ("POST", "/runs/{run_id}/cancel"): _OPERATE,
    ("POST", "/runs/{run_id}/rerun"): _OPERATE,
    ("POST", "/runs/{run_id}/retry"): _OPERATE,
    ("GET", "/waits"): _LOOK,
    ("GET", "/waits/watch"): _LOOK,
    ("GET", "/waits/{wait_id}"): _LOOK,
    ("POST", "/waits/{wait_id}/respond"): _OPERATE,
    ("POST", "/resume"): _OPERATE,
    ("GET", "/dlq"): _LOOK,
    ("POST", "/dlq/replay"): _OPERATE,
    ("POST", "/dlq/delete"): _OPERATE,
    ("GET", "/dlq/{seq}"): _LOOK,
    ("DELETE", "/dlq/{seq}"): _OPERATE,
    ("POST", "/dlq/{seq}/replay"): _OPERATE,
    ("GET", "/bulk"): _LOOK,
    ("POST", "/bulk/cancel"): _OPERATE,
    ("POST", "/bulk/rerun"): _OPERATE,
    ("GET", "/bulk/{bulk_id}"): _LOOK,
    ("POST", "/bulk/{bulk_id}/stop"): _OPERATE,
    ("GET", "/workers"): _LOOK,
    ("GET", "/workers/{worker_id}"): _LOOK,
    ("PATCH", "/workers/{worker_id}"): _OPERATE,
    ("GET", "/metrics"): _LOOK,
    ("GET", "/overview"): _READ,
    ("GET", "/wheels"): _WHEELS,
    ("POST", "/wheels"): _WHEELS,
    ("GET", "/wheels/history"): _WHEELS,
    ("GET", "/wheels/{wheel_name}"): _WHEELS,
    ("DELETE", "/wheels/{wheel_name}"): _WHEELS,
}
TABLE: Final[dict[tuple[str, str], Access]] = {
    (method, path): Access(path, frozenset(scopes)) for (method, path), scopes in _SCOPES.items()
}

_PARAMETER: Final = re.compile(r"\{\w+(:path)?\}")


def _pattern(path: str) -> re.Pattern[str]:
    parts = _PARAMETER.split(path)
    # What was split off comes in between: `:path` takes slashes too.
    fields = [".*" if part else "[^/]+" for part in parts[1::2]]
    text = re.escape(parts[0]) + "".join(
        field + re.escape(rest) for field, rest in zip(fields, parts[2::2], strict=True)
    )
    return re.compile(text, re.DOTALL)


_PATTERNS: Final[dict[str, list[tuple[re.Pattern[str], Access]]]] = {}
for (_method, _path), _access in TABLE.items():
    if "{" in _path:
        _PATTERNS.setdefault(_method, []).append((_pattern(_path), _access))


def route_path(scope: ConnectionScope) -> str:
    """The path of a request without the path that the app is mounted at."""
    path: str = scope["path"]
    root_path: str = scope.get("root_path", "")
    if root_path and (path == root_path or path.startswith(f"{root_path}/")):
        return path.removeprefix(root_path)
    return path


def is_known(path: str) -> bool:
    """Whether there is an endpoint at this path, for whatever method."""
    return any(access_of(method, path) is not None for method in {method for method, _ in TABLE})


def access_of(method: str, path: str) -> Access | None:
    """The row of a request; None: there is no such endpoint."""
    if method == "HEAD":
        method = "GET"
    access = TABLE.get((method, path))
    if access is not None:
        return access
    for pattern, access in _PATTERNS.get(method, ()):
        if pattern.fullmatch(path):
            return access
    return None
