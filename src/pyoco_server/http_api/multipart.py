"""Reading a form with one file in it, where the size limit holds while the body is being read."""

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from pyoco_server.errors import FieldProblem, InvalidRequest, WorkflowTooLarge
from pyoco_server.http_api.bodies import discard

# Room for the text fields and the boundaries around the file.
_FORM_OVERHEAD_BYTES = 64 * 1024
_MAX_TEXT_FIELDS = 20


@dataclass(frozen=True, slots=True)
class FileField:
    name: str
    max_bytes: int


@dataclass(frozen=True, slots=True)
class UploadedForm:
    file: bytes
    fields: dict[str, str]


async def read_form(request: Request, wanted: FileField) -> UploadedForm:
    """The file and the text fields; InvalidRequest or WorkflowTooLarge when it is not such a form."""
    content_type = request.headers.get("content-type", "")
    if not content_type.lower().startswith("multipart/form-data"):
        raise _invalid(
            "",
            f"wanted multipart/form-data with a file {wanted.name!r}, got {content_type or 'no type'!r}",
        )
    stream = request.stream()
    parser = MultiPartParser(
        request.headers, _limited(stream, wanted), max_files=1, max_fields=_MAX_TEXT_FIELDS
    )
    try:
        form = await parser.parse()
    except WorkflowTooLarge:
        await discard(stream)
        raise
    except (MultiPartException, KeyError, UnicodeDecodeError, ValueError) as error:
        raise _invalid("", f"the multipart body cannot be read: {error}") from None
    try:
        return await _taken_apart(form.multi_items(), wanted)
    finally:
        await form.close()


async def _taken_apart(items: list[tuple[str, UploadFile | str]], wanted: FileField) -> UploadedForm:
    file: bytes | None = None
    fields: dict[str, str] = {}
    for name, value in items:
        if name in fields or (name == wanted.name and file is not None):
            raise _invalid(name, "given more than once")
        if isinstance(value, str):
            fields[name] = _valid_text(name, value)
        elif name != wanted.name:
            raise _invalid(name, f"unexpected file; the file belongs into the field {wanted.name!r}")
        else:
            file = await value.read()
    if file is None:
        raise _invalid(wanted.name, "the file is missing; send it as a file part with a filename")
    if len(file) > wanted.max_bytes:
        raise _too_large(wanted)
    return UploadedForm(file, fields)


def _valid_text(name: str, text: str) -> str:
    """A part may name a charset that yields what no Unicode text has."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _invalid(name, "not a valid Unicode text; send it as UTF-8") from None
    return text


async def _limited(stream: AsyncIterator[bytes], wanted: FileField) -> AsyncGenerator[bytes, None]:
    left = wanted.max_bytes + _FORM_OVERHEAD_BYTES
    async for chunk in stream:
        left -= len(chunk)
        if left < 0:
            raise _too_large(wanted)
        yield chunk


def _too_large(wanted: FileField) -> WorkflowTooLarge:
    return WorkflowTooLarge(
        f"{wanted.name} is larger than {wanted.max_bytes} bytes (PYOCO_WORKFLOW_YAML_MAX_BYTES)"
    )


def _invalid(field: str, message: str) -> InvalidRequest:
    return InvalidRequest(problems=[FieldProblem(field, message)])
