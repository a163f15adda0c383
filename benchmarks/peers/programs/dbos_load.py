"""The load on DBOS: its client enqueues workflows for the worker process."""

import dbos_tasks
import driving
import sqlalchemy
from dbos import DBOSClient, EnqueueOptions

_POLL_SEC = 0.005


class OnDbos:
    def __init__(self) -> None:
        self._client = DBOSClient(system_database_url=dbos_tasks.DATABASE_URL)
        self._database = sqlalchemy.create_engine(dbos_tasks.DATABASE_URL)
        schema = "" if self._database.dialect.name == "sqlite" else "dbos."
        self._count = sqlalchemy.text(
            f"SELECT count(*) FROM {schema}workflow_status WHERE status = 'SUCCESS'"
        )

    def function(self) -> None:
        self._client.enqueue(_options("nothing"), 7)

    def flow(self) -> None:
        self._client.enqueue(_options("noop_flow"), 7)

    def stamp(self, sent_at: float, stamps: str) -> None:
        self._client.enqueue(_options("stamp"), sent_at, stamps)

    def chain(self, tasks: int, task_sec: float, limit_sec: float) -> None:
        handle = self._client.enqueue(_options("chain"), tasks, task_sec)
        handle.get_result(polling_interval_sec=_POLL_SEC)

    def finished(self) -> int:
        with self._database.connect() as connection:
            return int(connection.execute(self._count).scalar_one())


def _options(workflow: str) -> EnqueueOptions:
    return {"workflow_name": workflow, "queue_name": dbos_tasks.QUEUE, "app_version": "1"}


driving.serve(driving.Driver(OnDbos()))
