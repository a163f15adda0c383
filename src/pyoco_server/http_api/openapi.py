"""The OpenAPI document, from the table of endpoints."""

import re
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.agent.agent_errors import AgentCode, status_of
from pyoco_server.api.agent_request_types import AgentProblem
from pyoco_server.api.endpoints.endpoint import BYTES, JSON, TAGS, Body, Endpoint
from pyoco_server.api.endpoints.endpoint_table import ENDPOINTS
from pyoco_server.api.endpoints.runs.run_endpoints import SUBMIT_RUN, SUBMIT_RUN_YAML
from pyoco_server.api.endpoints.system_endpoints import MCP, OPENAPI
from pyoco_server.api.endpoints.triggers.hook_endpoints import RECEIVE_HOOK
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors.error_table import Err, ErrorSpec
from pyoco_server.http_api.gateway import gateway_of
from pyoco_server.http_api.requests.idempotency_header import HEADER, PATTERN, REPLAYED_HEADER
from pyoco_server.http_api.responses.http_problems import PROBLEM_TYPE, Problem
from pyoco_server.http_api.routing import handler_name, handles
from pyoco_server.http_api.streams.sse import MEDIA_TYPE as EVENT_STREAM
from pyoco_server.version import __version__

Json = dict[str, Any]

_REF: Final = "#/components/schemas/"
_SCHEME: Final = "ApiKey"
# The last one while keys cannot be checked.
_KEY_ERRORS: Final = (
    Err.API_KEY_MISSING,
    Err.API_KEY_INVALID,
    Err.API_KEYS_BUSY,
    Err.SCOPE_MISSING,
    Err.NATS_UNAVAILABLE,
)
# Every endpoint may return these, before it looks at the request.
_COMMON_ERRORS: Final = (Err.ORIGIN_REFUSED, Err.RATE_LIMITED)
# Ids of operations are names in generated clients, so they stay as they were first published.
_SHORT_IDS: Final = frozenset({SUBMIT_RUN, SUBMIT_RUN_YAML, MCP, RECEIVE_HOOK})


@handles(OPENAPI)
async def get_openapi(request: Request) -> Response:
    config = gateway_of(request).config
    document = _encoded(config.http_api_key_header, keys_required=config.http_auth_mode == "api_key")
    return Response(document, media_type=JSON)


@cache
def _encoded(key_header: str, *, keys_required: bool) -> bytes:
    return msgspec.json.encode(_document(key_header, keys_required=keys_required))


def openapi_document(config: NatsBackendConfig) -> Json:
    """What a gateway with these settings returns for `GET /openapi.json`."""
    return _document(config.http_api_key_header, keys_required=config.http_auth_mode == "api_key")


def _document(key_header: str, *, keys_required: bool) -> Json:
    document: Json = {
        "openapi": "3.1.0",
        "info": {"title": "pyoco-server", "version": __version__},
        "paths": {},
    }
    endpoints = [endpoint for endpoint in ENDPOINTS if endpoint.in_schema]
    types = list(
        dict.fromkeys([Problem, AgentProblem, *(each for endpoint in endpoints for each in _types(endpoint))])
    )
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF + "{name}")
    schema_of = dict(zip(types, schemas, strict=True))
    for endpoint in endpoints:
        operation = {**_names(endpoint), "tags": [endpoint.tag], "parameters": _in_path(endpoint.path)}
        document["paths"].setdefault(endpoint.path, {})[endpoint.method.lower()] = operation
        _add(operation, endpoint, schema_of)
        _add_security(operation, endpoint, required=keys_required)
    scheme = {
        "type": "apiKey",
        "in": "header",
        "name": key_header,
        "description": "Required with PYOCO_HTTP_AUTH_MODE=api_key. The roles are the key's scopes.",
    }
    document["tags"] = [{"name": name, "description": text} for name, text in TAGS.items()]
    document["components"] = {"schemas": components, "securitySchemes": {_SCHEME: scheme}}
    return document


def _names(endpoint: Endpoint) -> Json:
    name = handler_name(endpoint)
    if endpoint in _SHORT_IDS:
        return {"summary": endpoint.summary, "operationId": name}
    operation_id = re.sub(r"\W", "_", f"{name}{endpoint.path}")
    return {
        "summary": name.replace("_", " ").title(),
        "description": endpoint.summary,
        "operationId": f"{operation_id}_{endpoint.method.lower()}",
    }


def _types(endpoint: Endpoint) -> Iterable[Any]:
    """The types that need a schema of their own."""
    if isinstance(endpoint.response, tuple):
        yield from endpoint.response
    elif endpoint.response is not None and not isinstance(endpoint.response, dict):
        yield endpoint.response
    if endpoint.events is not None:
        yield from endpoint.events.records
    if endpoint.body is not None and not endpoint.body.file:
        yield endpoint.body.record


def _add(operation: Json, endpoint: Endpoint, schema_of: dict[Any, Any]) -> None:
    parameters: list[Json] = operation.pop("parameters")
    if endpoint.query is not None:
        parameters += [
            _parameter(name, "query", schema.pop("description", ""), schema)
            for name, schema in _properties(endpoint.query)["properties"].items()
        ]
    text: Json = {"type": "string"}
    parameters += [_parameter(name, "header", said, text) for name, said in endpoint.request_headers.items()]
    ok: Json = {"description": endpoint.ok_text, "content": _content(endpoint, schema_of)}
    headers = {
        name: {"description": said, "schema": text} for name, said in endpoint.response_headers.items()
    }
    if endpoint.creates:
        said = f"Repeating the request with this key returns the {endpoint.creates} of the first one."
        key: Json = {"type": "string", "pattern": f"^{PATTERN}$"}
        parameters.append(_parameter(HEADER, "header", said, key))
        said = f"`true` when the {endpoint.creates} is that of an earlier request with this key."
        headers[REPLAYED_HEADER] = {"description": said, "schema": text}
    if headers:
        ok["headers"] = headers
    responses: Json = {str(endpoint.status): ok}
    for error in sorted(endpoint.errors, key=lambda error: error.status or 500):
        _add_error(responses, error)
    if endpoint.is_agent:
        for code in (AgentCode.NO_REPOSITORY, *endpoint.codes):
            _describe(responses, status_of(code), code, AgentProblem)
    for status, description in endpoint.also.items():
        responses[str(status)] = {**ok, "description": description}
    operation["responses"] = responses
    if parameters:
        operation["parameters"] = parameters
    if endpoint.body is not None:
        operation["requestBody"] = _body(endpoint.body, schema_of)


def _parameter(name: str, place: str, description: str, schema: Json) -> Json:
    return {"name": name, "in": place, "required": False, "description": description, "schema": schema}


def _in_path(path: str) -> list[Json]:
    text = {"type": "string"}
    names = re.findall(r"\{(\w+)\}", path)
    return [{"name": name, "in": "path", "required": True, "schema": text} for name in names]


def _content(endpoint: Endpoint, schema_of: dict[Any, Any]) -> Json:
    content: Json = {}
    response = endpoint.response
    if isinstance(response, tuple):
        content[endpoint.media_type] = {"schema": {"anyOf": [schema_of[each] for each in response]}}
    elif response is not None:
        schema = response if isinstance(response, dict) else schema_of[response]
        content[endpoint.media_type] = {"schema": schema}
    if endpoint.also_bytes:
        content[BYTES] = {"schema": {"type": "string", "format": "binary"}}
    if endpoint.events is not None and not endpoint.websocket:
        # The schema is that of one event.
        text = {"type": "string"}
        event = {"event": text, "data": text, "id": text, "retry": {"type": "integer"}}
        schema = {"type": "object", "properties": event, "description": endpoint.events.text}
        content[EVENT_STREAM] = {"schema": schema}
    return content


def _body(body: Body, schema_of: dict[Any, Any]) -> Json:
    if not body.file:
        schema = schema_of[body.record]
        if body.min_fields:
            schema = {"allOf": [schema], "minProperties": body.min_fields}
        return {"required": body.required, "content": {JSON: {"schema": schema}}}
    # Merged, since the record forbids other fields: beside it, no form could have the file.
    form = _properties(body.record)
    form["properties"][body.file] = {"type": "string", "format": "binary", "description": body.file_text}
    form["required"] = [*form.get("required", []), body.file]
    return {"required": True, "content": {"multipart/form-data": {"schema": form}}}


def _properties(record: type[msgspec.Struct]) -> Json:
    """The schema of a record, with the types of its fields written out."""
    (schema,), components = msgspec.json.schema_components([record], ref_template="{name}")
    found: Json = components[schema["$ref"]]

    def resolved(part: Json) -> Json:
        part = {**components.get(part.pop("$ref", ""), {}), **part}
        if "enum" in part:
            # msgspec leaves it out; generators of clients use it.
            part = {"type": "string", **part}
        return {**part, "items": resolved(part["items"])} if "items" in part else part

    found["properties"] = {name: resolved(field) for name, field in found["properties"].items()}
    return found


def _add_security(operation: Json, endpoint: Endpoint, *, required: bool) -> None:
    if not endpoint.public:
        # One of these is enough, and `{}` is to send nothing.
        ways = [{_SCHEME: [scope]} for scope in endpoint.scope_names]
        operation["security"] = ways if required else [{}, *ways]
        for error in _KEY_ERRORS:
            _add_error(operation["responses"], error, _form_of(endpoint))
    for error in _COMMON_ERRORS:
        _add_error(operation["responses"], error, _form_of(endpoint))


def _form_of(endpoint: Endpoint) -> type[msgspec.Struct]:
    return AgentProblem if endpoint.is_agent else Problem


def _add_error(responses: Json, error: ErrorSpec, form: type[msgspec.Struct] = Problem) -> None:
    _describe(responses, error.status, f"{error.err_id}: {error.en}", form)


def _describe(responses: Json, status: int | None, text: str, form: type[msgspec.Struct]) -> None:
    """Add an error response; several of one status share their description."""
    schema = {"$ref": f"{_REF}{form.__name__}"}
    media_type = PROBLEM_TYPE if form is Problem else JSON
    response = responses.setdefault(str(status), {"content": {media_type: {"schema": schema}}})
    known = response.get("description")
    if known is None or text not in known.split("; "):
        response["description"] = text if known is None else f"{known}; {text}"
