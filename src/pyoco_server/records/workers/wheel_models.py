"""The history of wheels: who uploaded or deleted one."""

from enum import StrEnum

from msgspec import Struct

from pyoco_server.records.moments import Timestamp
from pyoco_server.records.value_types import Count


class WheelAction(StrEnum):
    UPLOAD = "upload"
    DELETE = "delete"


class WheelActor(Struct, kw_only=True):
    """Both null where no API keys are required."""

    tenant_id: str | None = None
    api_key_id: str | None = None


class Source(Struct, kw_only=True):
    """Where a request came from. The headers of a proxy are recorded, not trusted."""

    remote_addr: str | None = None
    x_forwarded_for: str | None = None
    x_real_ip: str | None = None
    user_agent: str | None = None
    host: str | None = None
    scheme: str | None = None


class WheelEvent(Struct, kw_only=True):
    """An upload or a deletion."""

    event_id: str
    occurred_at: Timestamp
    action: WheelAction
    wheel_name: str
    tags: list[str]
    size_bytes: Count | None
    sha256_hex: str | None
    # The parameter of an upload, which has no effect: the version decides.
    replace: bool | None
    actor: WheelActor
    source: Source
