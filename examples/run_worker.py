"""A worker inside a program of your own: flows run here, in this process, one at a time.

Start a gateway with NATS first (`pyoco-server up --with-nats-bootstrap`), then this file, then submit:

    pyoco-client submit --flow-name double --param number=21 --wait
"""

import asyncio
import signal

from pyoco import Flow, task

from pyoco_server.worker import PyocoNatsWorker


@task
def double(number: int) -> int:
    return number * 2


FLOWS = {"double": Flow("double") >> double}


def resolve(flow_name: str) -> Flow:
    """The flow of a name. A KeyError says that there is none, and fails the run with that reason."""
    return FLOWS[flow_name]


async def main() -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    worker = await PyocoNatsWorker.connect(flow_resolver=resolve, worker_id="embedded", tags=["default"])
    print("waiting for runs; Ctrl-C ends it")
    try:
        await worker.serve(stop)
    finally:
        await worker.close()


if __name__ == "__main__":
    asyncio.run(main())
