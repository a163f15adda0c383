"""Calls about wheels: methods of both clients."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pyoco_server.errors import FieldProblem, InvalidCliArgument, shortened
from pyoco_server.http_client import client_endpoints as api
from pyoco_server.http_client.call_types import Request, call, given
from pyoco_server.http_client.response_types import DeletedWheel, Wheel, WheelEvent

# The gateway inspects a large wheel before it responds.
_UPLOAD_SEC: Final = 600.0

# Called with how many bytes have been sent, and of how many.
OnProgress = Callable[[int, int], None]


class FileToSend:
    """A file for httpx. It is open only while a part is read, so that it need not be closed."""

    def __init__(self, path: Path, on_progress: OnProgress | None) -> None:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise _unfit(path, "expected a regular file, of which it is known how large it is")
        self._path = path
        self._size = found.st_size
        self._place = 0
        self._on_progress = on_progress

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._place = offset if whence == os.SEEK_SET else self._size + offset
        return self._place

    def read(self, size: int = -1) -> bytes:
        with self._path.open("rb") as file:
            if os.fstat(file.fileno()).st_size != self._size:
                raise _unfit(self._path, "it has changed while it was sent; try again when it is complete")
            file.seek(self._place)
            block = file.read(size)
        self._place += len(block)
        if self._on_progress is not None:
            self._on_progress(self._place, self._size)
        return block


def _unfit(path: Path, why: str) -> InvalidCliArgument:
    return InvalidCliArgument(problems=[FieldProblem("wheel_file", why, shortened(str(path)))])


def list_wheels() -> Request[list[Wheel]]:
    """Every wheel of the registry, by package and version."""
    return call(api.LIST_WHEELS)


def wheel_history(
    limit: int | None = None, *, wheel_name: str | None = None, action: str | None = None
) -> Request[list[WheelEvent]]:
    """Uploads and deletions, the newest first; at most `limit` (100, and never more than 500)."""
    return call(api.WHEEL_HISTORY, given(limit=limit, wheel_name=wheel_name, action=action))


def upload_wheel(
    wheel_file: str | os.PathLike[str],
    *,
    tags: Sequence[str] = (),
    replace: bool | None = None,
    on_progress: OnProgress | None = None,
) -> Request[Wheel]:
    """Register a wheel, for workers with one of the tags, or for all of them.

    Its version must be above that of every other wheel of its package. `on_progress` is called with how many
    bytes have been sent, and of how many. `replace` is only written to the history.
    """
    path = Path(wheel_file)
    form: dict[str, str] = {"tags": ",".join(tags)} if tags else {}
    if replace is not None:
        form["replace"] = "true" if replace else "false"
    files = {"wheel": (path.name, FileToSend(path, on_progress))}
    return call(api.UPLOAD_WHEEL, form=form, files=files, timeout_sec=_UPLOAD_SEC)


def delete_wheel(name: str) -> Request[DeletedWheel]:
    """Delete a wheel from the registry; workers uninstall it before their next runs."""
    return call(api.DELETE_WHEEL, wheel_name=name)
