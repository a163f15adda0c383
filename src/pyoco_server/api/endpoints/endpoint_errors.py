"""Errors that endpoints of several areas return."""

from pyoco_server.errors.error_table import Err

NATS = Err.NATS_UNAVAILABLE
UNREADABLE = Err.RECORD_UNREADABLE
RUN_ERRORS = (Err.RUN_NOT_FOUND, UNREADABLE, Err.INVALID_REQUEST, NATS)
LIST_ERRORS = (Err.INVALID_LIST_QUERY, NATS, Err.INDEX_NOT_READY)
