"""Dead letters: why a run failed, or a message is unusable."""

from msgspec import Struct

from pyoco_server.records.moments import Timestamp
from pyoco_server.records.value_types import Count


class DeadLetter(Struct, kw_only=True, omit_defaults=True):
    """Published to `<dlq prefix>.<tag>`: why a run failed, or a message is unusable."""

    timestamp: Timestamp
    reason: str
    error: str | None
    run_id: str | None = None
    flow_name: str | None = None
    tag: str | None = None
    tags: list[str] | None = None
    worker_id: str | None = None
    num_delivered: Count | None = None
    subject: str | None = None
    # Of its run; None where no API keys are required, or where it is unknown.
    tenant_id: str | None = None
