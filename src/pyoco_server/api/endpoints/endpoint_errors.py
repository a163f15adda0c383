"""What endpoints of several areas return: errors, and the type of a file."""

from dataclasses import replace
from typing import Final

from pyoco_server.errors.error_table import Err

BYTES: Final = "application/octet-stream"
NATS = Err.NATS_UNAVAILABLE
UNREADABLE = Err.RECORD_UNREADABLE
RANGE_NOT_SATISFIABLE = replace(Err.INVALID_REQUEST, status=416)
RUN_ERRORS = (Err.RUN_NOT_FOUND, UNREADABLE, Err.INVALID_REQUEST, NATS)
LIST_ERRORS = (Err.INVALID_LIST_QUERY, NATS, Err.INDEX_NOT_READY)
