"""Parameters that queries of several areas share."""

from typing import Annotated

from msgspec import Meta, UnsetType

from pyoco_server.api.run_types import Cursor

_REVISION = Meta(description="The revision that you have read: 409 if it was changed since. Default: any.")

NextCursor = Annotated[
    Cursor | UnsetType, Meta(description="The `next_cursor` of the page before, with the same filters.")
]
# In a query, and in a body.
KnownRevision = Annotated[Annotated[int, Meta(ge=1)] | UnsetType, _REVISION]
PatchedRevision = Annotated[int | UnsetType, _REVISION]
