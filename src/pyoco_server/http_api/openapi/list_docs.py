"""What the document says about the list of runs: its query is read by hand, and has two answers."""

from typing import Any, Final

from pyoco_server.errors.error_table import Err
from pyoco_server.http_api.openapi.parts import Answers, Paths, query_parameter, reference
from pyoco_server.http_api.routes.run_list_routes import (
    INCLUDES,
    LIMIT_DEFAULT,
    LIMIT_MAX,
    ORDERS,
    REVISION_HEADER,
    RunPage,
)
from pyoco_server.records.models import RunSnapshot, RunStatus
from pyoco_server.runs.index.run_index import SortField
from pyoco_server.runs.index.run_summary import RunItem

RECORDS: Final[tuple[type, ...]] = (RunItem, RunPage)
ANSWERS: Final[Answers] = {
    ("/runs", "get"): (RunPage, (Err.INVALID_LIST_QUERY, Err.NATS_UNAVAILABLE, Err.INDEX_NOT_READY)),
}

_TIME: Final = {"type": "number", "minimum": 0}


def _text(most: int = 200) -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "maxLength": most}


def _one_of(*words: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(words)}


FILTER_PARAMETERS: Final[list[dict[str, Any]]] = [
    query_parameter(
        "status",
        "Any of these; repeated or separated by commas, in upper or lower case.",
        {"type": "array", "items": _one_of(*RunStatus)},
    ),
    query_parameter("flow", "The name of the flow.", _text()),
    query_parameter("tag", "The run's tag, or one of its tags.", _text()),
    query_parameter("worker", "The id of the worker that has it, or had it last.", _text()),
    query_parameter("origin", "The run that it repeats.", {"type": "string", "format": "uuid"}),
    query_parameter(
        "workflow_yaml_sha256", "Of its flow.yaml.", {"type": "string", "pattern": "^[0-9A-Fa-f]{64}$"}
    ),
    query_parameter("updated_after", "In unix seconds.", _TIME),
    query_parameter("updated_before", "In unix seconds.", _TIME),
    query_parameter("submitted_after", "In unix seconds.", _TIME),
    query_parameter("submitted_before", "In unix seconds.", _TIME),
    query_parameter("q", "Anywhere in flow name, tags, error or params; the case does not matter.", _text()),
]
_LIST_PARAMETERS: Final[list[dict[str, Any]]] = [
    *FILTER_PARAMETERS,
    query_parameter("sort", "What it is sorted by; default `updated_at`.", _one_of(*SortField)),
    query_parameter("order", "Default `desc`: the newest or largest first.", _one_of(*ORDERS)),
    query_parameter(
        "limit",
        f"How many runs at most; default {LIMIT_DEFAULT}.",
        {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX},
    ),
    query_parameter(
        "include",
        "Answer whole snapshots, with `task_records`.",
        {"type": "array", "items": _one_of(*INCLUDES)},
    ),
    query_parameter(
        "cursor", "The `next_cursor` of the page before; with the same filters, sort and order.", _text(1000)
    ),
    query_parameter("paged", "Answer an object with `next_cursor`.", {"type": "boolean"}),
    query_parameter("total", "Answer an object that also says how many runs match.", {"type": "boolean"}),
]


def add(paths: Paths) -> None:
    operation = paths["/runs"]["get"]
    operation["parameters"] = _LIST_PARAMETERS
    page = reference(RunPage)
    items = {"type": "array", "items": reference(RunItem)}
    snapshots = {"type": "array", "items": reference(RunSnapshot)}
    page_of_snapshots = {
        "type": "object",
        "required": ["items", "next_cursor"],
        "properties": {
            "items": snapshots,
            "next_cursor": {"type": ["string", "null"]},
            "total": {"type": "integer"},
            "total_exact": {"type": "boolean"},
        },
    }
    answer = operation["responses"]["200"]
    answer["description"] = (
        "The runs. An object with `cursor`, `updated_after`, `paged=true` or `total=true`, else an array; "
        "whole snapshots with `include`."
    )
    answer["content"] = {
        "application/json": {"schema": {"anyOf": [items, page, snapshots, page_of_snapshots]}}
    }
    answer["headers"] = {
        REVISION_HEADER: {
            "description": "As of when this is: the `after` of `GET /runs/watch`.",
            "schema": {"type": "string"},
        }
    }
