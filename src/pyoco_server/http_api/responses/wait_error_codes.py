"""The words of errors where people answer: there every error has one, whoever refuses the request."""

import re
from typing import Final

from pyoco_server.errors import (
    ApiKeyInvalid,
    ApiKeyMissing,
    IndexNotReady,
    InvalidListQuery,
    InvalidRequest,
    NatsUnavailable,
    OriginRefused,
    PyocoError,
    RateLimited,
    RunNotFound,
    ScopeMissing,
)

_PATHS: Final = re.compile(r"/(resume|waits(/.*)?|runs/[^/]+/retry)")
# Those that have no word of their own: elsewhere nobody needs one.
_WORDS: Final[dict[type[PyocoError], str]] = {
    RunNotFound: "not_found",
    InvalidRequest: "invalid_request",
    InvalidListQuery: "invalid_request",
    NatsUnavailable: "unavailable",
    IndexNotReady: "unavailable",
    ApiKeyMissing: "unauthorized",
    ApiKeyInvalid: "forbidden",
    ScopeMissing: "forbidden",
    OriginRefused: "forbidden",
    RateLimited: "rate_limited",
}


def word_on(path: str, error: PyocoError) -> str | None:
    """The word of an error on this path; None where errors are told without."""
    if _PATHS.fullmatch(path) is None:
        return None
    return next((word for kind, word in _WORDS.items() if isinstance(error, kind)), None)
