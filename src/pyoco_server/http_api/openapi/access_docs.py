"""What the document says about API keys: which endpoints ask for one, and for which scope.

A gateway that does not ask for keys tells it as well, as something that may be left out: clients are made
from the document, for any gateway.
"""

from typing import Any, Final

from pyoco_server.errors.error_table import Err, ErrorSpec
from pyoco_server.http_api.middleware.access_table import TABLE
from pyoco_server.http_api.openapi.parts import content
from pyoco_server.http_api.responses.http_problems import PROBLEM_TYPE, Problem

_SCHEME: Final = "ApiKey"
# The last one while keys cannot be checked.
_ERRORS: Final = (Err.API_KEY_MISSING, Err.API_KEY_INVALID, Err.SCOPE_MISSING, Err.NATS_UNAVAILABLE)

# Of every endpoint: from whom a request comes, and how many came before it.
_REFUSED_BEFORE: Final = (Err.ORIGIN_REFUSED, Err.RATE_LIMITED)


def add(document: dict[str, Any], header: str, *, required: bool) -> None:
    document["components"]["securitySchemes"] = {
        _SCHEME: {
            "type": "apiKey",
            "in": "header",
            "name": header,
            "description": "Asked for with PYOCO_HTTP_AUTH_MODE=api_key. The roles are the key's scopes.",
        }
    }
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            access = TABLE.get((method.upper(), path))
            if access is None or not access.public:
                scopes = [] if access is None else access.wanted
                # One of these is enough, and `{}` is to send nothing.
                ways = [{_SCHEME: [scope]} for scope in scopes] or [{_SCHEME: []}]
                operation["security"] = ways if required else [{}, *ways]
                for spec in _ERRORS:
                    _add_error(operation["responses"], spec)
            for spec in _REFUSED_BEFORE:
                _add_error(operation["responses"], spec)


def _add_error(responses: dict[str, Any], spec: ErrorSpec) -> None:
    told = f"{spec.err_id}: {spec.en}"
    answer = responses.setdefault(str(spec.status), {"content": content(PROBLEM_TYPE, Problem)})
    known = answer.get("description")
    if known is None or spec.err_id not in known:
        answer["description"] = told if known is None else f"{known}; {told}"
