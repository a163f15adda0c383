"""What the document says about `/overview`."""

from typing import Final

from pyoco_server.errors.error_table import Err
from pyoco_server.http_api.openapi.parts import Answers, Paths, query_parameter
from pyoco_server.http_api.routes.overview_routes import WINDOW_DEFAULT, WINDOWS, Overview

RECORDS: Final[tuple[type, ...]] = (Overview,)
ANSWERS: Final[Answers] = {
    ("/overview", "get"): (Overview, (Err.INVALID_LIST_QUERY, Err.NATS_UNAVAILABLE, Err.INDEX_NOT_READY)),
}


def add(paths: Paths) -> None:
    window = {"type": "string", "enum": list(WINDOWS), "default": WINDOW_DEFAULT}
    paths["/overview"]["get"]["parameters"] = [
        query_parameter("window", "How far back ended runs are counted.", window)
    ]
