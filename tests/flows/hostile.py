"""A flow whose task attacks the worker that executes it."""

import base64
import os
import socket
import stat
import time

from pyoco import Flow, task


@task
def write_to_sockets(data: str, kind: str = "stream") -> None:
    """Write to all sockets of the executor, which are its links to the worker, and wait."""
    wanted = socket.SOCK_STREAM if kind == "stream" else socket.SOCK_SEQPACKET
    for name in os.listdir("/proc/self/fd"):
        descriptor = int(name)
        try:
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                continue
            with socket.socket(fileno=os.dup(descriptor)) as link:
                if link.family == socket.AF_UNIX and link.type == wanted:
                    link.sendall(base64.b64decode(data))
        except OSError:
            continue
    if kind == "stream":
        time.sleep(3600)
    os._exit(0)


writes_to_sockets = Flow(name="writes-to-sockets")
writes_to_sockets >> write_to_sockets
