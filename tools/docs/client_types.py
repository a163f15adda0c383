"""The generated modules of the client: endpoints, and a TypedDict for each record that one returns."""

from textwrap import fill
from typing import Any, get_origin

import msgspec
from msgspec import inspect

from pyoco_server.api.endpoints.endpoint_table import ENDPOINT_BY_NAME, ENDPOINTS
from pyoco_server.api.endpoints.runs.run_endpoints import REVISION_HEADER
from pyoco_server.records.runs.run_models import RunStatus

_LINE_CHARS = 110
_ENDPOINTS_HEAD = '''"""The endpoints as the client needs them; it starts faster without the records of api/.

Generated from `api/endpoints/` by `make docs`.
"""

from pyoco_server.http_client.call_types import ClientEndpoint

'''
_HEAD = '''"""What the gateway returns, for type checkers and editors; see docs/http-api.md for the meaning.

Generated from `api/` by `make docs`. At run time these are dictionaries, with all that the gateway has sent.
"""

# ruff: noqa: UP013
# fmt: off
from typing import Any, Literal, NotRequired, TypedDict

'''
# Where the name differs from that of the record. Records with one name share a type: a field that not all of
# them have is not required.
_NAMES = {
    "ActionView": "Action",
    "AlertView": "Alert",
    "ArtifactView": "Artifact",
    "AuditActorView": "AuditActor",
    "AuditEntryView": "AuditEntry",
    "AuditTargetView": "AuditTarget",
    "ArtifactsView": "Artifacts",
    "ChannelView": "AlertChannel",
    "BulkRecord": "BulkOperation",
    "DeliveryView": "Delivery",
    "FactsView": "AlertFacts",
    "FindingView": "Finding",
    "HookView": "Hook",
    "LetterDeleted": "DeletedLetter",
    "LetterView": "Letter",
    "LettersView": "LetterPage",
    "LineView": "LogLine",
    "LogsView": "LogPage",
    "MessageView": "AlertMessage",
    "MuteView": "AlertMute",
    "NextView": "NextStep",
    "ReplayAccepted": "ReplayedLetter",
    "OccurrenceView": "AlertOccurrence",
    "QuestionView": "RequestQuestion",
    "RequestRunView": "RequestRun",
    "RequestView": "AgentRequest",
    "RerunAccepted": "Accepted",
    "Responded": "Receipt",
    "RetryJobView": "RetryJob",
    "RetryQueueView": "RetryQueue",
    "RunAccepted": "Accepted",
    "RunSnapshot": "Run",
    "RuleView": "AlertRule",
    "RunView": "Run",
    "ScheduleView": "Schedule",
    "SecretView": "HookSecret",
    "SignatureView": "HookSignature",
    "SpecView": "ScheduleSpec",
    "StepView": "TemplateStep",
    "TasksView": "Tasks",
    "TemplateView": "Template",
    "ViewFilterView": "ViewFilter",
    "ViewView": "View",
    "WaitView": "Wait",
    "WheelDeleted": "DeletedWheel",
    "WheelSyncState": "WheelSync",
    "WheelView": "Wheel",
    "WorkerChanged": "WorkerChange",
    "WorkerView": "Worker",
    "WorkflowActionView": "WorkflowAction",
}
_SIMPLE: dict[type[inspect.Type], str] = {
    inspect.AnyType: "Any",
    inspect.RawType: "Any",
    inspect.StrType: "str",
    inspect.EnumType: "str",
    inspect.IntType: "int",
    inspect.FloatType: "float",
    inspect.BoolType: "bool",
    inspect.NoneType: "None",
}


def render_client_endpoints() -> str:
    """The text of http_client/client_endpoints.py."""
    lines = []
    for name, endpoint in ENDPOINT_BY_NAME.items():
        if not endpoint.in_schema:
            continue
        repeatable = ", repeatable=True" if endpoint.repeatable or endpoint.method == "GET" else ""
        array = ", returns_array=True" if get_origin(endpoint.response) is list else ""
        arguments = f'"{endpoint.method}", "{endpoint.path}"{repeatable}{array}'
        line = f"{name} = ClientEndpoint({arguments})"
        if len(line) > _LINE_CHARS:
            line = f"{name} = ClientEndpoint(\n    {arguments}\n)"
        lines.append(line)
    terminal = ", ".join(f'"{status}"' for status in RunStatus if status.terminal)
    return _ENDPOINTS_HEAD + "\n".join(
        [
            *lines,
            f'REVISION_HEADER = "{REVISION_HEADER}"',
            f'COMPLETED = "{RunStatus.COMPLETED}"',
            "# The statuses of runs that have ended.",
            f"TERMINAL = frozenset({{{terminal}}})\n",
        ]
    )


def render_client_types() -> str:
    """The text of http_client/response_types.py."""
    types: dict[str, list[dict[str, str]]] = {}
    for endpoint in ENDPOINTS:
        for each in endpoint.response if isinstance(endpoint.response, tuple) else [endpoint.response]:
            if each is not None and not isinstance(each, dict):
                _text(inspect.type_info(each), types)
    return _HEAD + "".join(_typed_dict(name, _merged(records)) for name, records in types.items())


def _text(info: inspect.Type, types: dict[str, list[dict[str, str]]]) -> str:  # noqa: PLR0911
    """How a type is written; a record that it needs is added to `types` before."""
    match info:
        case inspect.Metadata():
            return _text(info.type, types)
        case inspect.StructType():
            return _add_record(info, types)
        case inspect.LiteralType():
            return f"Literal[{', '.join(map(repr, info.values))}]"
        case inspect.ListType():
            return f"list[{_text(info.item_type, types)}]"
        case inspect.TupleType():
            return f"list[{_text(info.item_types[0], types)}]"
        case inspect.NamedTupleType():
            return f"list[{_text(info.fields[0].type, types)}]"
        case inspect.DictType():
            return f"dict[str, {_text(info.value_type, types)}]"
        case inspect.UnionType():
            return " | ".join(_text(each, types) for each in info.types)
    return _SIMPLE[type(info)]


def _add_record(info: inspect.StructType, types: dict[str, list[dict[str, str]]]) -> str:
    name = _NAMES.get(info.cls.__name__, info.cls.__name__)
    known = list(types)
    fields = {field.encode_name: _field(field, info.cls, types) for field in info.fields}
    if name in known:
        # Another record of this name: what only this one needs must come before it, too.
        for each in known[known.index(name) :]:
            types[each] = types.pop(each)
    records = types.setdefault(name, [])
    if fields not in records:
        records.append(fields)
    return name


def _field(field: inspect.Field, record: type[Any], types: dict[str, list[dict[str, str]]]) -> str:
    text = _text(field.type, types)
    # `UNSET` is shown as no default at all.
    unset = field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT
    omitted = not field.required and (unset or record.__struct_config__.omit_defaults)
    return f"NotRequired[{text}]" if omitted else text


def _merged(records: list[dict[str, str]]) -> dict[str, str]:
    names = dict.fromkeys(name for fields in records for name in fields)
    return {name: _common([fields.get(name) for fields in records]) for name in names}


def _common(texts: list[str | None]) -> str:
    given = [text for text in texts if text is not None]
    optional = [text for text in given if text.startswith("NotRequired")]
    if optional or len(given) == len(texts):
        return (optional or given)[0]
    return f"NotRequired[{given[0]}]"


def _typed_dict(name: str, fields: dict[str, str]) -> str:
    # A space within a field must not be where a line breaks.
    items = ", ".join(f'"{key}": {text}'.replace(" ", "\0") for key, text in fields.items())
    line = f'{name} = TypedDict("{name}", {{{items}}})\n'.replace("\0", " ")
    if len(line) <= 111:
        return line
    body = fill(items, 109, initial_indent="    ", subsequent_indent="    ").replace("\0", " ")
    return f'{name} = TypedDict("{name}", {{\n{body},\n}})\n'
