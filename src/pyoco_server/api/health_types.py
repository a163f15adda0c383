"""What the health endpoint and the endpoint about the caller's API key return."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from pyoco_server.records.unreadable_records import RecordKind


class KeyAccess(Struct, kw_only=True):
    """What the key of the request may do; without authentication, everything."""

    key_id: str | None
    tenant_id: str | None
    name: str | None
    # With those that `admin`, or no scopes, include.
    scopes: list[str]
    groups: list[str]
    sees_all_tenants: bool
    # Method and path of each endpoint that it may use.
    endpoints: list[str]


class NatsHealth(Struct, kw_only=True):
    status: str
    ready: bool
    since: float | UnsetType = UNSET
    detail: str | UnsetType = UNSET


class SpaceLeft(Struct, kw_only=True):
    # `disk` of the embedded server, `account`, or the name of a stream.
    of: str
    free_bytes: int
    limit_bytes: int


class StorageHealth(Struct, kw_only=True):
    """Whether NATS can write. `low` is what is about to be full."""

    ready: bool
    # Why not: disk_full, store_stopped, not_stored or limit_reached.
    cause: str | UnsetType | None = UNSET
    detail: str | UnsetType = UNSET
    low: list[SpaceLeft] | UnsetType = UNSET


class IndexHealth(Struct, kw_only=True):
    # Also that of waits.
    ready: bool
    # Up to which revision of the runs bucket it was read, and at most how many writes are to come.
    revision: int | UnsetType = UNSET
    behind: int | UnsetType = UNSET
    # Of all tenants: not for a key of one of them.
    runs: int | UnsetType = UNSET


class HealthQuery(Struct, kw_only=True):
    """What a probe asks for."""

    ready: Annotated[bool, Meta(description="Return 503 until the gateway is fully ready.")] = False


class Health(Struct, kw_only=True):
    """`status` is that of the gateway itself; `nats` must be ready to accept runs, `index` to list them.

    Where keys are required, a request without a valid one gets `status` and `ready` only.
    `nats` is not ready while `storage` is not: while NATS cannot write.
    """

    status: str = "ok"
    version: str | UnsetType = UNSET
    nats: NatsHealth
    storage: StorageHealth
    index: IndexHealth
    # By how many seconds the clock of the NATS server is ahead of this gateway's; absent until it is known.
    clock_offset_sec: float | UnsetType = UNSET
    # How many stored records this gateway could not read, by kind; the others are not affected.
    unreadable: dict[RecordKind, int] | UnsetType = UNSET
