"""What the document says about `/workers`, `/metrics` and `/health`."""

from typing import Final

from pyoco_server.errors.error_table import Err
from pyoco_server.http_api.metrics.metric_page import MEDIA_TYPE
from pyoco_server.http_api.openapi.parts import (
    Answers,
    Paths,
    array_of_its_answer,
    query_parameters,
    reference,
)
from pyoco_server.http_api.responses.http_problems import Problem
from pyoco_server.http_api.routes.health_routes import Health
from pyoco_server.http_api.routes.worker_routes import WorkerChanged, WorkerPatch, WorkersQuery, WorkerView

RECORDS: Final[tuple[type, ...]] = (Health, WorkerChanged, WorkerPatch, WorkerView)
ANSWERS: Final[Answers] = {
    ("/health", "get"): (Health, (Err.INVALID_REQUEST,)),
    ("/metrics", "get"): (Problem, (Err.NATS_UNAVAILABLE,)),
    ("/workers", "get"): (WorkerView, (Err.INVALID_WORKERS_REQUEST, Err.NATS_UNAVAILABLE)),
    ("/workers/{worker_id}", "get"): (WorkerView, (Err.WORKER_NOT_FOUND, Err.NATS_UNAVAILABLE)),
    ("/workers/{worker_id}", "patch"): (
        WorkerChanged,
        (Err.WORKER_NOT_FOUND, Err.INVALID_WORKERS_REQUEST, Err.NATS_UNAVAILABLE),
    ),
}


def add(paths: Paths) -> None:
    listing = paths["/workers"]["get"]
    listing["parameters"] = query_parameters(WorkersQuery)
    array_of_its_answer(listing)
    change = {"allOf": [reference(WorkerPatch)], "minProperties": 1}
    paths["/workers/{worker_id}"]["patch"]["requestBody"] = {
        "required": True,
        "content": {"application/json": {"schema": change}},
    }
    paths["/metrics"]["get"]["responses"]["200"]["content"] = {
        MEDIA_TYPE: {"schema": {"type": "string", "description": "Prometheus' text format."}}
    }
    # `/health?ready=1` answers the same record with another status.
    answers = paths["/health"]["get"]["responses"]
    answers["503"] = {**answers["200"], "description": "Only with `ready=1`: not ready yet."}
