"""The dead-letter stream: one message for each run or job that ended badly, for diagnosis."""

from pyoco_server.broker.connection import Connection
from pyoco_server.broker.publishing import publish_acked
from pyoco_server.models import DeadLetter, encode


class DeadLetters:
    """The `PYOCO_DLQ` stream."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def publish(self, letter: DeadLetter, *, tag: str) -> None:
        subject = f"{self._connection.config.dlq_subject_prefix}.{tag}"
        await publish_acked(self._connection, subject, encode(letter))
