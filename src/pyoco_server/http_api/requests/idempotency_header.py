"""The `Idempotency-Key` header, with which a client can repeat a request safely."""

import re
from typing import Any

from starlette.requests import Request

from pyoco_server.errors import FieldProblem, InvalidRequest, shortened
from pyoco_server.runs.lifecycle.idempotency import KeyedRequest, keyed_command
from pyoco_server.runs.lifecycle.tenancy import Caller

HEADER = "Idempotency-Key"
# Of the repeated response to an earlier request.
REPLAYED_HEADER = "Idempotent-Replayed"
REPLAYED = {REPLAYED_HEADER: "true"}
PATTERN = "[\x21-\x7e]{1,255}"

_KEY = re.compile(PATTERN)
_RAW_NAME = HEADER.lower().encode()


def idempotency_key(request: Request) -> str | None:
    # Faster than `request.headers`, which builds an object.
    headers: list[tuple[bytes, bytes]] = request.scope["headers"]
    keys = [value.decode("latin-1") for name, value in headers if name == _RAW_NAME]
    if not keys:
        return None
    if len(keys) > 1:
        raise InvalidRequest(problems=[FieldProblem(HEADER, "the header is given more than once; send one")])
    if not _KEY.fullmatch(keys[0]):
        message = "expected 1 to 255 visible ASCII characters, such as a UUID"
        raise InvalidRequest(problems=[FieldProblem(HEADER, message, value=shortened(keys[0]))])
    return keys[0]


def keyed_by_header(request: Request, caller: Caller, *command: Any) -> KeyedRequest | None:
    """The command with the key of the request; None without a key."""
    key = idempotency_key(request)
    return None if key is None else keyed_command(key, caller.tenant_id, *command)
