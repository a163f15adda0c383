"""The pieces that every description of an endpoint is made of."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pyoco_server.errors.error_table import ErrorSpec
from pyoco_server.http_api.requests.idempotency_header import HEADER, PATTERN, REPLAYED_HEADER
from pyoco_server.http_api.streams.sse import MEDIA_TYPE as EVENT_STREAM

Paths = dict[str, Any]
# Of a path and a method: the record that is answered, and the errors.
Answers = Mapping[tuple[str, str], tuple[type, tuple[ErrorSpec, ...]]]

REF: Final = "#/components/schemas/"


def reference(record: type) -> dict[str, Any]:
    return {"$ref": f"{REF}{record.__name__}"}


def content(media_type: str, record: type) -> dict[str, Any]:
    return {media_type: {"schema": reference(record)}}


def json_body(record: type, *, required: bool) -> dict[str, Any]:
    return {"required": required, "content": content("application/json", record)}


def array_of_its_answer(operation: dict[str, Any]) -> None:
    """The endpoint answers a list of the record that it was said to answer."""
    answer = operation["responses"]["200"]["content"]["application/json"]
    answer["schema"] = {"type": "array", "items": answer["schema"]}


def form_with_file(fields: type[msgspec.Struct], name: str, description: str) -> dict[str, Any]:
    """A multipart form: the text fields of a record, and one file."""
    # Merged, since the record forbids other fields: beside it, no form could have the file.
    schema = _properties_of(fields)
    schema["properties"][name] = {"type": "string", "format": "binary", "description": description}
    schema["required"] = [*schema.get("required", []), name]
    return {"required": True, "content": {"multipart/form-data": {"schema": schema}}}


def add_idempotency(operation: dict[str, Any], made: str) -> None:
    """The endpoint takes a key; `made` is what a request makes, such as "run"."""
    operation.setdefault("parameters", []).append(
        {
            "name": HEADER,
            "in": "header",
            "required": False,
            "description": f"Repeating the request with this key answers with the {made} of the first one.",
            "schema": {"type": "string", "pattern": f"^{PATTERN}$"},
        }
    )
    operation["responses"]["200"]["headers"] = {
        REPLAYED_HEADER: {
            "description": f"`true` when the {made} is that of an earlier request with this key.",
            "schema": {"type": "string"},
        }
    }


def query_parameters(record: type[msgspec.Struct]) -> list[dict[str, Any]]:
    """The fields of a record as parameters of a query."""
    return [
        query_parameter(name, field.pop("description", ""), field)
        for name, field in _properties_of(record)["properties"].items()
    ]


def query_parameter(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "description": description, "schema": schema}


def events(description: str) -> dict[str, Any]:
    """An answer of server-sent events; the schema is that of one event."""
    text = {"type": "string"}
    event = {"event": text, "data": text, "id": text, "retry": {"type": "integer"}}
    schema = {"type": "object", "properties": event, "description": description}
    return {EVENT_STREAM: {"schema": schema}}


def _properties_of(record: type[msgspec.Struct]) -> dict[str, Any]:
    """The schema of a record, with the records in it written out."""
    (schema,), components = msgspec.json.schema_components([record], ref_template="{name}")
    found: dict[str, Any] = components[schema["$ref"]]
    found["properties"] = {
        name: components.get(field.get("$ref", ""), field) for name, field in found["properties"].items()
    }
    return found
