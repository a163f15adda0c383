"""The errors of JetStream that pyoco-server can meet."""

from enum import Enum
from typing import Any


class ApiError(Enum):
    """HTTP-like code, number, text."""

    WRONG_LAST_SEQUENCE = (400, 10071, "wrong last sequence: {}")
    TOO_LARGE = (400, 10054, "message size exceeds maximum allowed")
    TTL_DISABLED = (400, 10166, "per-message TTL is disabled")
    TTL_INVALID = (400, 10165, "invalid per-message TTL")
    ROLLUP_DISABLED = (500, 10111, "rollup not permitted")
    STREAM_NOT_FOUND = (404, 10059, "stream not found")
    STREAM_EXISTS = (400, 10058, "stream name already in use with a different configuration")
    SUBJECTS_OVERLAP = (400, 10065, "subjects overlap with an existing stream")
    CONSUMER_NOT_FOUND = (404, 10014, "consumer not found")
    CONSUMER_EXISTS = (400, 10148, "consumer already exists")
    NOT_UNIQUE = (400, 10100, "filtered consumer not unique on workqueue stream")
    MULTIPLE_UNFILTERED = (400, 10099, "multiple non-filtered consumers not allowed on workqueue stream")
    WORK_QUEUE_ACK = (400, 10098, "workqueue stream requires explicit ack")
    WORK_QUEUE_DELIVER_ALL = (400, 10101, "consumer must be deliver all on workqueue stream")
    NO_MESSAGE = (404, 10037, "no message found")
    DELETE_REFUSED = (500, 10057, "message delete not permitted")
    SEQUENCE_NOT_FOUND = (400, 10043, "sequence {} not found")


class Refused(Exception):
    def __init__(self, error: ApiError, *values: object) -> None:
        code, number, text = error.value
        self.fields: dict[str, Any] = {
            "code": code,
            "err_code": number,
            "description": text.format(*values),
        }
        super().__init__(self.fields["description"])
