"""Reading a form with one file. The size limit applies while the body is read."""

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
    # The error of a larger file, and the setting of the limit.
    too_large: type[PyocoError] = WorkflowTooLarge
    setting: str = "PYOCO_WORKFLOW_YAML_MAX_BYTES"
    # How long the whole form may take to arrive.
    within_sec: float = 60.0


@dataclass(frozen=True, slots=True)
class UploadedForm:
    file: bytes
    fields: dict[str, str]


@dataclass(frozen=True, slots=True)
class OpenForm:
    """A form whose file is in memory while it is small, and then in an unnamed temporary file."""

    file: UploadFile
    fields: dict[str, str]


async def read_form(request: Request, expected: FileField) -> UploadedForm:
    """The file and the text fields, as `open_form` has them; for files that fit into memory."""
    async with open_form(request, expected) as form:
        return UploadedForm(await form.file.read(), form.fields)


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
    """The file and the text fields; InvalidRequest or `expected.too_large` when it is not such a form."""
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
        yield _taken_apart(form.multi_items(), expected)
    finally:
        await form.close()


async def refuse_unread(request: Request, stream: AsyncIterator[bytes], refusal: PyocoError) -> NoReturn:
    """Raise it after reading on a little, so that the sender reads the response."""
    # With `Expect: 100-continue` the body has not been sent.
    asks_first = request.headers.get("expect", "").lower() == "100-continue"
    if asks_first or not await discard(stream):
        refusal.headers["Connection"] = "close"
    raise refusal


async def _parsed(
    parser: MultiPartParser, request: Request, stream: AsyncIterator[bytes], expected: FileField
) -> FormData:
    limit = asyncio.timeout(expected.within_sec)
    try:
        async with limit:
            return await parser.parse()
    except expected.too_large as refusal:
        await refuse_unread(request, stream, refusal)
    except TimeoutError:
        if not limit.expired():
            raise
        late = _invalid("", f"the body did not come within {expected.within_sec:g} s; send it faster")
        late.headers["Connection"] = "close"
        raise late from None
    except (MultiPartException, KeyError, UnicodeDecodeError, ValueError) as error:
        raise _invalid("", f"the multipart body cannot be read: {error}") from None


def _taken_apart(items: list[tuple[str, UploadFile | str]], expected: FileField) -> OpenForm:
    file: UploadFile | None = None
    fields: dict[str, str] = {}
    for name, value in items:
        if name in fields or (name == expected.name and file is not None):
            raise _invalid(name, "given more than once")
        if isinstance(value, str):
            fields[name] = _valid_text(name, value)
        elif name != expected.name:
            raise _invalid(name, f"unexpected file; the file belongs into the field {expected.name!r}")
        else:
            file = value
    if file is None:
        raise _invalid(expected.name, "the file is missing; send it as a file part with a filename")
    if (file.size or 0) > expected.max_bytes:
        raise _too_large(expected)
    return OpenForm(file, fields)


def _valid_text(name: str, text: str) -> str:
    """A part may name a charset that decodes to invalid Unicode."""
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
            refusal = _too_large(expected)
            if not declared:
                # A body without a length may never end.
                refusal.headers["Connection"] = "close"
            raise refusal
        yield chunk


def _too_large(expected: FileField) -> PyocoError:
    problem = FieldProblem(expected.name, f"expected at most {expected.max_bytes} bytes")
    return expected.too_large(
        f"{expected.name} is larger than {expected.max_bytes} bytes ({expected.setting})", problems=[problem]
    )


def _invalid(field: str, message: str) -> InvalidRequest:
    return InvalidRequest(problems=[FieldProblem(field, message)])
