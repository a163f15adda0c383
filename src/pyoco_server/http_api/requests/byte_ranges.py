"""The `Range` header of a request (RFC 9110), for one range."""

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
    """From `start` up to, but not including, `stop`."""

    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start

    def content_range(self, whole: int) -> str:
        return f"bytes {self.start}-{self.stop - 1}/{whole}"


def requested_range(header: str | None, size: int) -> ByteRange | None:
    """None: the whole file. That is also the response to several ranges and to an invalid header."""
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
        error = RangeNotSatisfiable(problems=[FieldProblem("Range", message, value=shortened(header))])
        error.headers["Content-Range"] = f"bytes */{size}"
        raise error
    return ByteRange(start, stop)
