"""What the document says about `/wheels`."""

from typing import Final

from pyoco_server.errors import WheelTooLarge
from pyoco_server.errors.error_table import Err
from pyoco_server.http_api.openapi.parts import (
    Answers,
    Paths,
    array_of_its_answer,
    form_with_file,
    query_parameters,
)
from pyoco_server.http_api.requests.byte_ranges import RangeNotSatisfiable
from pyoco_server.http_api.routes.wheel_routes import HistoryQuery, WheelDeleted, WheelFields, WheelView
from pyoco_server.records.operation_models import WheelEvent

RECORDS: Final[tuple[type, ...]] = (WheelDeleted, WheelEvent, WheelView)
ANSWERS: Final[Answers] = {
    ("/wheels", "get"): (WheelView, (Err.NATS_UNAVAILABLE,)),
    ("/wheels", "post"): (
        WheelView,
        (
            Err.WHEEL_VERSION_REJECTED,
            WheelTooLarge.error,
            Err.INVALID_REQUEST,
            Err.NATS_UNAVAILABLE,
            Err.UPLOADS_BUSY,
        ),
    ),
    ("/wheels/history", "get"): (WheelEvent, (Err.INVALID_REQUEST, Err.NATS_UNAVAILABLE)),
    ("/wheels/{wheel_name}", "get"): (
        WheelView,
        (Err.WHEEL_NOT_FOUND, RangeNotSatisfiable.error, Err.NATS_UNAVAILABLE),
    ),
    ("/wheels/{wheel_name}", "delete"): (WheelDeleted, (Err.WHEEL_NOT_FOUND, Err.NATS_UNAVAILABLE)),
}
_BYTES: Final = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}


def add(paths: Paths) -> None:
    """The lists as arrays, the query of the history, the form of an upload, and the bytes of a download."""
    for path in ("/wheels", "/wheels/history"):
        array_of_its_answer(paths[path]["get"])
    paths["/wheels/history"]["get"]["parameters"] = query_parameters(HistoryQuery)
    paths["/wheels"]["post"]["requestBody"] = form_with_file(
        WheelFields, "wheel", "A wheel, under its own name."
    )
    download = paths["/wheels/{wheel_name}"]["get"]
    download["responses"]["200"]["content"] = _BYTES
    download["responses"]["206"] = {"description": "The range that was asked for", "content": _BYTES}
    download.setdefault("parameters", []).append(
        {
            "name": "Range",
            "in": "header",
            "required": False,
            "description": "One range of bytes, such as `bytes=1048576-`.",
            "schema": {"type": "string"},
        }
    )
