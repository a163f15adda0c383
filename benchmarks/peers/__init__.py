"""The product and its peers, behind one interface."""

from benchmarks.peers.celery import CELERY
from benchmarks.peers.dbos import DBOS_POSTGRES, DBOS_SQLITE
from benchmarks.peers.dramatiq import DRAMATIQ, DRAMATIQ_DEFAULT
from benchmarks.peers.ours import OURS
from benchmarks.peers.peer import Peer
from benchmarks.peers.public import PUBLIC
from benchmarks.peers.taskiq import TASKIQ, TASKIQ_2X2

PEERS: tuple[Peer, ...] = (
    OURS,
    PUBLIC,
    CELERY,
    DRAMATIQ,
    DRAMATIQ_DEFAULT,
    TASKIQ,
    TASKIQ_2X2,
    DBOS_SQLITE,
    DBOS_POSTGRES,
)
