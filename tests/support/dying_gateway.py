"""A gateway that kills itself in the middle of an upload: so many chunks of the wheel are stored then.

`python -m tests.support.dying_gateway <chunks> <arguments of pyoco-server>`.
"""

import os
import signal
import sys

from pyoco_server.broker.object_store import ObjectStore
from pyoco_server.cli.server import main


def die_behind(chunks: int) -> None:
    store_chunk = ObjectStore._store_chunk

    async def last_chunk(self: ObjectStore, nuid: str, number: int, chunk: bytes) -> None:
        await store_chunk(self, nuid, number, chunk)
        if number + 1 == chunks:
            os.kill(os.getpid(), signal.SIGKILL)

    ObjectStore._store_chunk = last_chunk  # type: ignore[method-assign]


if __name__ == "__main__":
    die_behind(int(sys.argv.pop(1)))
    main()
