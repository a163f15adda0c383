"""Ids of requests, and of the runs of one request.

A run of a request has a number, as text `001`: `run_number` in the code. In the files of a request and in
`/api/v1` that number is called `run_id`, and the id of the run of the flow, a UUID, `pyoco_run_id`. In the
code and in stored records a `run_id` is that UUID, as everywhere else; only a `Stage` has the fields of its
file.
"""

import hashlib
import re
import unicodedata
from datetime import datetime
from typing import Final

from pyoco_server.agent.agent_errors import AgentCode, AgentError
from pyoco_server.errors import shortened
from pyoco_server.records.agent.request_models import REQUEST_ID_PATTERN

_REQUEST_ID: Final = re.compile(REQUEST_ID_PATTERN)
_RUN_NUMBER: Final = re.compile(r"[0-9]{3,6}")
# Of a run that has a next one.
MAX_SEQUENCE: Final = 999_998
_SLUG_CHARS: Final = 48
_HASH_CHARS: Final = 8


def is_request_id(given: object) -> bool:
    return isinstance(given, str) and _REQUEST_ID.fullmatch(given) is not None


def checked_request_id(given: object) -> str:
    """The id; AgentError INVALID_REQUEST if it is not one. Such an id names no file outside its folder."""
    if isinstance(given, str) and is_request_id(given):
        return given
    raise AgentError(
        AgentCode.INVALID_REQUEST,
        f"id={shortened(given)} is not an id of a request.",
        hint="Use 1 to 100 of a-z, 0-9 and '-', such as 20261117-login-timeout; '-' neither first nor last.",
    )


def is_run_number(given: object) -> bool:
    return isinstance(given, str) and _RUN_NUMBER.fullmatch(given) is not None


def run_number_text(number: int) -> str:
    """`001` for the first run of a request."""
    if number < 1:
        raise ValueError(f"number={number}: the first run of a request is 1")
    return f"{number:03d}"


def slug_of(title: str) -> str:
    """The ASCII letters and digits of a title; a short hash of one that has no letter."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:_SLUG_CHARS].strip("-")
    if re.search(r"[a-z]", slug):
        return slug
    return hashlib.sha256(title.encode(errors="surrogatepass")).hexdigest()[:_HASH_CHARS]


def new_request_id(title: str, at: datetime) -> str:
    """`YYYYMMDD-<slug>`, by the day of `at`."""
    return f"{at:%Y%m%d}-{slug_of(title)}"
