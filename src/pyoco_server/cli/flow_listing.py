"""Which flows a folder has. Found out in a process of its own, since importing a module may do anything."""

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pyoco_server.worker.flow_files import FlowFolder


@dataclass(frozen=True, slots=True)
class FlowListing:
    names: list[str] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)  # file name -> why it was not loaded


async def list_flows(folder: Path) -> FlowListing:
    """The flows that the executors of a worker will find there."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, str(folder), stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL
    )
    try:
        output, _ = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    # Modules may print while they are imported; the listing is the last line.
    last_line = output.decode(errors="replace").strip().rpartition("\n")[2]
    if process.returncode != 0 or not last_line:
        return FlowListing(failures={str(folder): f"reading it ended with exit code {process.returncode}"})
    return FlowListing(**json.loads(last_line))


def main() -> None:
    folder = FlowFolder(Path(sys.argv[1]))
    folder.load()
    listing = FlowListing(folder.names, folder.failures)
    sys.stdout.write("\n" + json.dumps(asdict(listing)) + "\n")


if __name__ == "__main__":
    main()
