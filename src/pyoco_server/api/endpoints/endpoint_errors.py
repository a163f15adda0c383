"""Errors that endpoints of several areas return, and what those that return ranges of bytes share."""

from dataclasses import replace
from typing import Final

from pyoco_server.errors.error_table import Err

NATS = Err.NATS_UNAVAILABLE
UNREADABLE = Err.RECORD_UNREADABLE
RUN_ERRORS = (Err.RUN_NOT_FOUND, UNREADABLE, Err.INVALID_REQUEST, NATS)
LIST_ERRORS = (Err.INVALID_LIST_QUERY, NATS, Err.INDEX_NOT_READY)
INDEX_READ_ERRORS = (Err.INVALID_REQUEST, NATS, Err.INDEX_NOT_READY)
RANGE_NOT_SATISFIABLE: Final = replace(Err.INVALID_REQUEST, status=416)
RANGE_HEADERS: Final = {"Range": "One range of bytes, such as `bytes=1048576-`."}
