"""Types of single values that records and requests share: tags, ids, names, labels, counts."""

import re
from typing import Annotated, Final

from msgspec import Meta

# `$` alone also matches before a final newline, in Python; `(?!\n)` holds in OpenAPI's dialect as well.
TAG_PATTERN = r"^[A-Za-z0-9_-]{1,64}$(?!\n)"
WORKER_ID_PATTERN = r"^[A-Za-z0-9_-]{1,128}$(?!\n)"
FLOW_NAME_PATTERN = r"^[^\x00-\x1f\x7f]{1,200}$(?!\n)"
RUN_ID_PATTERN = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$(?!\n)"

# The same in words, for error messages.
TAG_EXPECTED = "expected 1 to 64 letters, digits, '_' or '-' (no '.')"
WORKER_ID_EXPECTED = "expected 1 to 128 letters, digits, '_' or '-'"
RUN_ID_EXPECTED = "expected a run id: a lower-case UUID"
FLOW_NAME_EXPECTED = "expected 1 to 200 printable characters, without an API key"
# The highest sequence number of a JetStream stream.
LAST_SEQUENCE: Final = 2**63 - 1
# 30 days.
RUN_TIMEOUT_MAX_SEC = 2_592_000
RUN_TIMEOUT_EXPECTED = f"expected a number of seconds above 0, at most {RUN_TIMEOUT_MAX_SEC} (30 days)"

Tag = Annotated[
    str, Meta(pattern=TAG_PATTERN, description="One token of a NATS subject: letters, digits, _ or -.")
]
Label = Annotated[str, Meta(min_length=1, max_length=100)]
Labels = Annotated[list[Label], Meta(max_length=50)]
# Of new runs: a flow's name is shown to everybody who may read the run.
_API_KEY = r"pyoco_([0-9a-f]{16}_[0-9a-f]{64}|[0-9a-f]{24}(_[0-9a-f]{64}|\.[0-9A-Za-z_-]{20}))"
NEW_FLOW_NAME_PATTERN = rf"^(?!.*{_API_KEY}){FLOW_NAME_PATTERN[1:]}"
NewFlowName = Annotated[
    str, Meta(pattern=NEW_FLOW_NAME_PATTERN, description="1 to 200 printable characters, without an API key.")
]
FlowName = Annotated[str, Meta(pattern=FLOW_NAME_PATTERN, description="1 to 200 printable characters.")]
RunTimeout = Annotated[
    float, Meta(gt=0, le=RUN_TIMEOUT_MAX_SEC, description="How long the run may take, in seconds.")
]
RunId = Annotated[str, Meta(pattern=RUN_ID_PATTERN, description="A lower-case UUID.")]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
NonNegative = Annotated[float, Meta(ge=0, le=1e9)]
StoredTag = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{0,64}$(?!\n)")]
StoredName = Annotated[str, Meta(max_length=200)]

_RUN_ID = re.compile(RUN_ID_PATTERN)
_TAG = re.compile(TAG_PATTERN)


def is_run_id(text: str) -> bool:
    return _RUN_ID.fullmatch(text) is not None


def is_tag(text: str) -> bool:
    return _TAG.fullmatch(text) is not None
