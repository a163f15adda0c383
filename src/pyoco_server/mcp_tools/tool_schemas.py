"""The JSON Schemas of the tools, from the records of their arguments and of their endpoints' responses."""

from functools import cache
from typing import Any, Final

import msgspec

from pyoco_server.mcp_tools.tool_results import NOTES
from pyoco_server.mcp_tools.tool_table import TOOLS

Json = dict[str, Any]

_REF: Final = "#/$defs/{name}"
_NOTES_SCHEMA: Final[Json] = {
    "type": "array",
    "items": {"type": "string"},
    "description": "What to know about this result: whether it was cut, or may not be trusted.",
}


@cache
def input_schema(name: str) -> Json:
    return _object_schema(TOOLS[name].arguments)


@cache
def output_schema(name: str) -> Json:
    tool = TOOLS[name]
    if tool.array:
        (items,), definitions = msgspec.json.schema_components([tool.returns], ref_template=_REF)
        schema: Json = {"type": "object", "properties": {tool.array: items}, "required": [tool.array]}
        schema["$defs"] = _portable(definitions)
    else:
        schema = _object_schema(tool.returns)
    for field in tool.without:
        del schema["properties"][field]
    schema["properties"][NOTES] = _NOTES_SCHEMA
    return schema


def _object_schema(record: Any) -> Json:
    """The record itself at the root, as the protocol requires it."""
    (root,), definitions = msgspec.json.schema_components([record], ref_template=_REF)
    name = root["$ref"].rpartition("/")[2]
    schema: Json = definitions.pop(name)
    # msgspec names the class, which says nothing to an agent.
    schema.pop("title", None)
    if definitions:
        schema["$defs"] = definitions
    portable: Json = _portable(schema)
    return portable


def _portable(schema: Any) -> Any:
    """The schema as all clients understand it.

    The official client for TypeScript reads schemas as draft 7, in which a tuple of draft 2020-12 is always
    empty. Some providers of models refuse patterns that look ahead; the endpoints check these.
    """
    if isinstance(schema, list):
        return [_portable(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    known = {name: _portable(each) for name, each in schema.items()}
    if isinstance(known.get("prefixItems"), list):
        known["items"] = {"anyOf": known.pop("prefixItems")}
    # A property may have the name of a keyword; its schema is no text.
    if isinstance(pattern := known.get("pattern"), str) and "(?" in pattern:
        del known["pattern"]
    return known
