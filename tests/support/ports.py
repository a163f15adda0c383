"""Ports for servers that are stopped and come back at the same address."""

import atexit
import random
import socket

# Below those that systems hand out by themselves (from 32,768 or 49,152): nobody gets one of these while its
# server is away, neither for a server of his own nor for his end of a connection.
_FIRST, _BEHIND_LAST = 12_000, 32_000

# One UDP socket for each port: as long as this process lives, no other test takes it.
_claims: dict[int, socket.socket] = {}


@atexit.register
def _release() -> None:
    for claim in _claims.values():
        claim.close()


def port_to_keep() -> int:
    """A free port of 127.0.0.1 that stays this process's own, whether its server is up or not."""
    while True:
        port = random.SystemRandom().randrange(_FIRST, _BEHIND_LAST)
        claim = socket.socket(type=socket.SOCK_DGRAM)
        try:
            claim.bind(("127.0.0.1", port))
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            claim.close()
        else:
            _claims[port] = claim
            return port
