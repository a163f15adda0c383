"""The record of an endpoint: routing, scopes, 405, OpenAPI, client calls and the reference follow from it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, zip_longest
from typing import Any, Final

from msgspec import Struct

from pyoco_server.agent.agent_errors import AgentCode
from pyoco_server.api.endpoints.audit_rule import AuditRule
from pyoco_server.auth.scopes import Scope
from pyoco_server.errors.error_table import ErrorSpec

JSON: Final = "application/json"
BYTES: Final = "application/octet-stream"
# Why an endpoint that is no GET is not audited.
CHANGES_NOTHING: Final = "It changes nothing."
# What a browser sends when it opens a stream of events again.
LAST_EVENT_ID: Final = "Last-Event-ID"
# Of agent requests.
JSON_UTF8: Final = "application/json; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Body:
    """What a request carries; in a form, the field `file` is a file."""

    # A record, or `Any` for any JSON.
    record: Any
    required: bool = True
    file: str = ""
    file_text: str = ""
    min_fields: int = 0


@dataclass(frozen=True, slots=True)
class Events:
    """A stream of server-sent events, and the records that are their data."""

    text: str
    records: tuple[type[Struct], ...]


@dataclass(frozen=True, eq=False)
class Endpoint:
    # Method and path.
    route: str
    # A key with any one of them may use it; none: it is public.
    scopes: tuple[Scope, ...]
    summary: str
    # A record, a list of records, a tuple of alternatives, or the JSON Schema of what is not JSON.
    response: Any = None
    errors: tuple[ErrorSpec, ...] = ()
    body: Body | None = None
    query: type[Struct] | None = None
    # A GET without a query that ignores parameters all the same: clients add some of their own.
    any_query: bool = False
    events: Events | None = None
    # What a request creates that takes an `Idempotency-Key`.
    creates: str = ""
    # Whether a client may repeat it after a failure, also without a key; a GET always.
    repeatable: bool = False
    media_type: str = JSON
    # Of a successful response.
    status: int = 200
    ok_text: str = "OK"
    # Other statuses that come with the same content.
    also: Mapping[int, str] = field(default_factory=dict)
    request_headers: Mapping[str, str] = field(default_factory=dict)
    response_headers: Mapping[str, str] = field(default_factory=dict)
    head: bool = False
    # The content may also be bytes, `application/octet-stream`.
    also_bytes: bool = False
    in_schema: bool = True
    # A public endpoint whose response has more details with a valid key.
    optional_key: bool = False
    # Senders outside reach it, also by the names of PYOCO_HOOK_HOSTS: it checks its own token or signature.
    for_senders: bool = False
    # It changes what all tenants use: with PYOCO_HTTP_OPERATOR_TENANT only for keys of that tenant.
    operators_only: bool = False
    # In place of an API key it takes the token of workflow events (AX_WORKFLOW_EVENT_TOKEN).
    event_token: bool = False
    # Errors of agent requests, which have a form of their own.
    codes: tuple[AgentCode, ...] = ()
    # The handshake of a WebSocket.
    websocket: bool = False
    # The parameter of the path that may contain slashes.
    with_slashes: str = ""
    # What the audit log keeps of it; every endpoint that is no GET has either this or a reason.
    audit: AuditRule | None = None
    not_audited: str = ""

    @cached_property
    def method(self) -> str:
        return self.route.partition(" ")[0]

    @cached_property
    def path(self) -> str:
        return self.route.partition(" ")[2]

    @cached_property
    def routed_path(self) -> str:
        """The path for the router."""
        name = self.with_slashes
        return self.path.replace(f"{{{name}}}", f"{{{name}:path}}") if name else self.path

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        parts = re.split(r"\{(\w+)(?::path)?\}", self.path)
        texts = [re.escape(text) for text in parts[::2]]
        groups = [f"(?P<{name}>{'.*' if name == self.with_slashes else '[^/]+'})" for name in parts[1::2]]
        return re.compile("".join(chain.from_iterable(zip_longest(texts, groups, fillvalue=""))), re.DOTALL)

    def path_params(self, path: str) -> dict[str, str]:
        """The values of the parameters in the path of a request to this endpoint."""
        found = self._pattern.fullmatch(path)
        return {} if found is None else found.groupdict()

    @cached_property
    def tag(self) -> str:
        """The group of the reference that it belongs to."""
        first = self.path.removeprefix("/api").split("/")[1]
        return _TAG_OF_PATH.get(first, first)

    @cached_property
    def is_agent(self) -> bool:
        """Whether it belongs to agent requests: its errors have their form."""
        return is_agent_path(self.path)

    @cached_property
    def refuses_query(self) -> bool:
        """Whether it is a GET without parameters; the contracts below `/api` and `/ws` tolerate them."""
        is_tolerant = self.any_query or self.path.startswith(("/api/", "/ws/"))
        return self.method == "GET" and self.query is None and not is_tolerant

    @property
    def public(self) -> bool:
        return not self.scopes

    @property
    def scope_names(self) -> list[str]:
        return [scope.value for scope in self.scopes]

    def allows(self, scopes: frozenset[Scope]) -> bool:
        return self.public or Scope.ADMIN in scopes or not scopes.isdisjoint(self.scopes)


def is_agent_path(path: str) -> bool:
    return path.startswith(("/api/v1/", "/ws/")) or path == "/api/v1"


# The groups of the reference, in their order.
TAGS: Final = {
    "runs": "Submit, list, follow, cancel and rerun runs.",
    "views": "Saved views of the list of runs.",
    "flows": "The flows of the workers: parameters, tasks, versions and statistics.",
    "schedules": "Runs that start at times.",
    "waits": "Questions of runs to people, and their answers.",
    "events": "Events, which all waiting runs receive.",
    "workflow-events": "Events of other systems that start runs, by templates and actions.",
    "hooks": "Deliveries of other systems that start runs.",
    "requests": "Agent requests: coding work in the repository of this gateway (`pyoco-server agent`).",
    "alerts": "Conditions of runs, queues and workers that are reported to people.",
    "statistics": "Figures of ended runs: throughput, success, durations and times in the queue.",
    "bulk": "One operation on many runs or dead letters.",
    "dlq": "Dead letters: runs that failed for good.",
    "workers": "Workers, and what they may do.",
    "wheels": "Code for the workers.",
    "mcp": "Tools for agents (Model Context Protocol).",
    "audit": "Who did what.",
    "system": "Health, metrics, and the rights of an API key.",
}
_TAG_OF_PATH: Final = {
    "resume": "waits",
    "worker-setup": "workers",
    **dict.fromkeys(("v1", "ws"), "requests"),
    **dict.fromkeys(("workflow-templates", "workflow-actions"), "workflow-events"),
    **dict.fromkeys(("health", "key", "metrics", "overview"), "system"),
}
