"""What the users of a connection share is made once, and ends with the connection."""

import gc
import weakref

from pyoco_server.broker.client.connection import Connection
from pyoco_server.config import NatsBackendConfig
from pyoco_server.runs.lifecycle.job_signatures import signatures_of


async def test_connection_is_freed_with_what_its_users_share() -> None:
    connection = Connection(NatsBackendConfig(load_dotenv=False), name="freed")
    assert signatures_of(connection) is signatures_of(connection)
    gone = weakref.ref(connection)
    del connection
    gc.collect()
    assert gone() is None
