"""A random secret that all gateways share."""

import secrets
from typing import Final

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.kv import Bucket
from pyoco_server.broker.jetstream.publishing import RevisionConflict

_BYTES: Final = 32


async def shared_secret(connection: Connection, name: str) -> bytes:
    """The secret of this name, created by the first caller. Workers cannot read the bucket of leases."""
    bucket = Bucket(connection, connection.config.lease_kv_bucket)
    key = f"secret_{name}"
    stored = await bucket.get_from_leader(key)
    if stored is not None:
        return stored.value
    fresh = secrets.token_bytes(_BYTES)
    try:
        await bucket.create(key, fresh)
    except RevisionConflict:
        stored = await bucket.get_from_leader(key)
        if stored is None:
            raise connection.unavailable(f"the secret {name} was created and removed at once") from None
        return stored.value
    return fresh
