"""Writes store.json: `python -m tests.support.public.record`, with Python 3.12 or newer on the machine."""

import asyncio
import json
import tempfile
from dataclasses import asdict
from pathlib import Path

from tests.support.broker.nats_server import NatsServer
from tests.support.public.package import use
from tests.support.public.store import read_store

RECORDING = Path(__file__).parent / "store.json"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        server = NatsServer(Path(folder) / "nats")
        server.start()
        try:
            left = use(server.url, Path(folder))
            streams = asyncio.run(read_store(server.url))
        finally:
            server.stop()
    RECORDING.write_text(json.dumps({"left": asdict(left), "streams": streams}, indent=1) + "\n")


if __name__ == "__main__":
    main()
