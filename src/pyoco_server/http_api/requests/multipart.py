"""Reading a form with one file; its size limit is enforced while the body is read."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import NoReturn

from starlette.datastructures import FormData, Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from pyoco_server.errors import FieldProblem, InvalidRequest, PyocoError, WorkflowTooLarge
from pyoco_server.http_api.requests.bodies import discard

# Room for the text fields and the boundaries around the file.
_FORM_OVERHEAD_BYTES = 64 * 1024
_MAX_TEXT_FIELDS = 20


@dataclass(frozen=True, slots=True)
class FileField:
    name: str
    max_bytes: int
    # The error of a larger one, and the setting that allows it.
    too_large: type[PyocoError] = WorkflowTooLarge
    setting: str = "PYOCO_WORKFLOW_YAML_MAX_BYTES"
    # Of the whole form.
    within_sec: float = 60.0


@dataclass(frozen=True, slots=True)
class OpenForm:
    """A small file is in memory, a large one in a temporary file."""

    file: UploadFile
    fields: dict[str, str]


class _FormParser(MultiPartParser):
    """Fails on a form that is cut off. Starlette drops its last part without closing its file."""

    _ended = False

    def __init__(self, headers: Headers, stream: AsyncGenerator[bytes, None], **limits: int) -> None:
        super().__init__(headers, self._complete(stream), **limits)

    async def _complete(self, stream: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        async for chunk in stream:
            yield chunk
        if not self._ended:
            raise MultiPartException("it ends before its last boundary")

    def on_end(self) -> None:
        self._ended = True


@asynccontextmanager
async def open_form(request: Request, expected: FileField) -> AsyncIterator[OpenForm]:
    """InvalidRequest or `expected.too_large` when it is not such a form."""
    content_type = request.headers.get("content-type", "")
    if not content_type.lower().startswith("multipart/form-data"):
        raise _invalid(
            "",
            f"expected multipart/form-data with a file {expected.name!r}, got {content_type or 'no type'!r}",
        )
    stream = request.stream()
    parser = _FormParser(
        request.headers,
        _limited(stream, expected, declared=request.headers.get("content-length", "")),
        max_files=1,
        max_fields=_MAX_TEXT_FIELDS,
        max_part_size=_FORM_OVERHEAD_BYTES,
    )
    # The parser closes its temporary files itself when it fails.
    form = await _parsed(parser, request, stream, expected)
    try:
        yield _open_form(form.multi_items(), expected)
    finally:
        await form.close()


async def reject_unread(request: Request, stream: AsyncIterator[bytes], error: PyocoError) -> NoReturn:
    """Discard the rest of the body, so that the client can read the response, and raise the error."""
    # Such a client has not sent the body yet.
    waits_for_100 = request.headers.get("expect", "").lower() == "100-continue"
    if waits_for_100 or not await discard(stream):
        error.headers["Connection"] = "close"
    raise error


async def _parsed(
    parser: MultiPartParser, request: Request, stream: AsyncIterator[bytes], expected: FileField
) -> FormData:
    limit = asyncio.timeout(expected.within_sec)
    try:
        async with limit:
            return await parser.parse()
    except expected.too_large as error:
        await reject_unread(request, stream, error)
    except TimeoutError:
        if not limit.expired():
            raise
        late = _invalid("", f"the body did not come within {expected.within_sec:g} s; send it faster")
        late.headers["Connection"] = "close"
        raise late from None
    except (MultiPartException, KeyError, UnicodeDecodeError, ValueError) as error:
        raise _invalid("", f"the multipart body cannot be read: {error}") from None


def _open_form(items: list[tuple[str, UploadFile | str]], expected: FileField) -> OpenForm:
    file: UploadFile | None = None
    fields: dict[str, str] = {}
    for name, value in items:
        if name in fields or (name == expected.name and file is not None):
            raise _invalid(name, "given more than once")
        if isinstance(value, str):
            fields[name] = _valid_text(name, value)
        elif name != expected.name:
            raise _invalid(name, f"unexpected file; send the file in the field {expected.name!r}")
        else:
            file = value
    if file is None:
        raise _invalid(expected.name, "the file is missing; send it as a file part with a filename")
    if (file.size or 0) > expected.max_bytes:
        raise _too_large(expected)
    return OpenForm(file, fields)


def _valid_text(name: str, text: str) -> str:
    """The charset of a part may yield surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _invalid(name, "not a valid Unicode text; send it as UTF-8") from None
    return text


async def _limited(
    stream: AsyncIterator[bytes], expected: FileField, *, declared: str
) -> AsyncGenerator[bytes, None]:
    left = expected.max_bytes + _FORM_OVERHEAD_BYTES
    if declared.isdecimal() and int(declared) > left:
        raise _too_large(expected)
    async for chunk in stream:
        left -= len(chunk)
        if left < 0:
            error = _too_large(expected)
            if not declared:
                # A chunked body may be endless.
                error.headers["Connection"] = "close"
            raise error
        yield chunk


def _too_large(expected: FileField) -> PyocoError:
    problem = FieldProblem(expected.name, f"expected at most {expected.max_bytes} bytes")
    return expected.too_large(
        f"{expected.name} is larger than {expected.max_bytes} bytes ({expected.setting})", problems=[problem]
    )


def _invalid(field: str, message: str) -> InvalidRequest:
    return InvalidRequest(problems=[FieldProblem(field, message)])
