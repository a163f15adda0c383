"""Names that are private to other libraries, and that we use all the same: an upgrade must not lose them."""

from collections.abc import AsyncGenerator

import pytest
from starlette import _utils
from starlette.datastructures import Headers
from starlette.formparsers import MultiPartParser
from starlette.responses import StreamingResponse
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle


async def _nothing() -> AsyncGenerator[bytes, None]:
    yield b""


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        # The path of a request below the path that the app is mounted at.
        (_utils, "get_route_path"),
        # What sends the bytes of a download, and is stopped when they are gone.
        (StreamingResponse, "stream_response"),
        # Called when a request asks for another protocol, while the parser's exception is at hand.
        (HttpToolsProtocol, "_unsupported_upgrade_warning"),
    ],
)
def test_it_is_there(owner: object, name: str) -> None:
    assert callable(getattr(owner, name))


def test_a_parser_of_forms_lists_its_temporary_files() -> None:
    parser = MultiPartParser(Headers({}), _nothing())
    assert parser._files_to_close_on_error == []


def test_a_cycle_of_uvicorn_says_how_far_its_answer_is() -> None:
    assert {"response_started", "response_complete"} <= set(RequestResponseCycle.__init__.__code__.co_names)
