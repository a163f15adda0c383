"""The `Range` header of a request (RFC 9110), with one range."""

import re
from dataclasses import dataclass, replace
from typing import Final

from pyoco_server.errors import FieldProblem, InvalidRequest, shortened
from pyoco_server.errors.error_table import Err

_RANGE: Final = re.compile(r"bytes\s*=\s*(\d{0,19})\s*-\s*(\d{0,19})", re.IGNORECASE)


class RangeNotSatisfiable(InvalidRequest):
    """The range begins after the end of the file."""

    error = replace(Err.INVALID_REQUEST, status=416)


@dataclass(frozen=True, slots=True)
class ByteRange:
    """The bytes from `start` up to, but without, `stop`."""

    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start

    def content_range(self, whole: int) -> str:
        return f"bytes {self.start}-{self.stop - 1}/{whole}"


def requested_range(header: str | None, size: int) -> ByteRange | None:
    """The requested range; None for the whole file.

    Several ranges, and what cannot be understood, are answered with the whole file, as RFC 9110 allows.
    """
    found = _RANGE.fullmatch(header.strip()) if header else None
    if found is None or not (found[1] or found[2]):
        return None
    if not found[1]:
        start, stop = max(0, size - int(found[2])), size
    else:
        start = int(found[1])
        stop = min(size, int(found[2]) + 1) if found[2] else size
        if found[2] and int(found[2]) < start:
            return None
    if start >= size or start == stop:
        message = f"the file has {size} bytes; expected a range that begins within them"
        refusal = RangeNotSatisfiable(problems=[FieldProblem("Range", message, value=shortened(header))])
        refusal.headers["Content-Range"] = f"bytes */{size}"
        raise refusal
    return ByteRange(start, stop)
