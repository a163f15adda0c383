"""The requests of a repository: `requests/<id>.md`, one file each.

Gateway and worker both write these files. A change is made under a lock, of the content that the file has by
then, and replaces the file as a whole; a change that an editor made meanwhile is read, and kept.
"""

import os
import stat
from collections.abc import Callable, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from pyoco_server.agent.agent_errors import AgentCode, AgentError
from pyoco_server.agent.atomic_files import checked_folder, write_atomically, writing
from pyoco_server.agent.file_lock import FileLock
from pyoco_server.agent.request_file import (
    Priority,
    RequestFile,
    RequestStatus,
    new_request_text,
    one_line,
)
from pyoco_server.agent.request_ids import checked_request_id, is_request_id, new_request_id
from pyoco_server.errors import shortened

MAX_FILE_BYTES: Final = 4 * 1024 * 1024
_MAX_SAME_TITLES: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRequest:
    title: str
    base: str
    # None: `branch_prefix` and the id.
    branch: str | None = None
    branch_prefix: str = "ai/"
    priority: Priority = Priority.P2
    tags: tuple[str, ...] = ()
    want: str = ""
    # None: made of the day and the title.
    request_id: str | None = None


class RequestFolder:
    """Reads and writes the request files of one repository."""

    def __init__(self, repo: Path, requests_dir: str, lock: Path) -> None:
        """`lock` is a file that everybody who writes here locks (RepoPaths.requests_lock)."""
        self._repo = repo
        self.path = repo / requests_dir
        self._lock = lock

    def ids(self) -> list[str]:
        """The ids of all requests; files of other names are ignored."""
        try:
            with os.scandir(self.path) as entries:
                names = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
        except FileNotFoundError:
            return []
        stems = (name.removesuffix(".md") for name in names if name.endswith(".md"))
        return sorted(stem for stem in stems if is_request_id(stem))

    def read(self, request_id: str) -> RequestFile:
        """AgentError REQUEST_NOT_FOUND if there is none, INVALID_REQUEST if it is not an id."""
        return RequestFile.parse(request_id, self._raw(self.file_of(request_id)))

    def file_of(self, request_id: str) -> Path:
        return self.path / f"{checked_request_id(request_id)}.md"

    def relative_path(self, request_id: str) -> str:
        return self.file_of(request_id).relative_to(self._repo).as_posix()

    def create(self, new: NewRequest, now: datetime, taken: Set[str] = frozenset()) -> RequestFile:
        """Write a new file, with a free id; AgentError FILE_ALREADY_EXISTS if the given id is not free.

        `taken`: ids that are not free, besides those of the files.
        """
        with self._locked():
            request_id = self._free_id(new, now, taken)
            at = now.isoformat(timespec="seconds")
            fields = {
                "id": request_id,
                "title": one_line(new.title),
                "priority": new.priority,
                "status": RequestStatus.QUEUED,
                "base": new.base,
                "branch": new.branch or f"{new.branch_prefix}{request_id}",
                "tags": [one_line(tag) for tag in new.tags] or None,
                "created_at": at,
                "updated_at": at,
            }
            text = new_request_text(fields, new.want)
            self._check_size(request_id, text)
            write_atomically(self.file_of(request_id), text)
        return RequestFile.parse(request_id, text)

    def change(
        self, request_id: str, change: Callable[[RequestFile], RequestFile], now: datetime | None = None
    ) -> RequestFile:
        """Write what `change` makes of the file; with `now`, a change sets `updated_at`.

        `change` may be called several times, since an editor may save the file meanwhile. What it raises
        leaves the file as it is.
        """
        file = self.file_of(request_id)
        with self._locked():
            while True:
                before = RequestFile.parse(request_id, self._raw(file))
                after = change(before)
                if after.raw == before.raw:
                    return before
                if now is not None:
                    after = after.changed({"updated_at": now.isoformat(timespec="seconds")})
                self._check_size(request_id, after.raw)
                if self._raw(file) == before.raw:
                    write_atomically(file, after.raw)
                    return after

    def delete(self, request_id: str) -> None:
        file = self.file_of(request_id)
        with self._locked(), writing(file):
            try:
                file.unlink()
            except FileNotFoundError:
                raise no_such_request(request_id) from None

    def _locked(self) -> AbstractContextManager[None]:
        checked_folder(self._repo, self.path)
        return FileLock(self._lock).held()

    def _free_id(self, new: NewRequest, now: datetime, taken: Set[str]) -> str:
        def is_free(request_id: str) -> bool:
            return request_id not in taken and not self.file_of(request_id).exists()

        if new.request_id is not None:
            request_id = checked_request_id(new.request_id)
            if not is_free(request_id):
                raise AgentError(
                    AgentCode.FILE_ALREADY_EXISTS,
                    f"id={shortened(request_id)}: there is a request with this id, or a run of one that was "
                    "removed.",
                    hint="Choose another id, or leave it out.",
                )
            return request_id
        wished = new_request_id(new.title, now)
        names = [wished, *(f"{wished}-{number}" for number in range(2, _MAX_SAME_TITLES))]
        free = next(filter(is_free, names), None)
        if free is None:
            raise AgentError(
                AgentCode.FILE_ALREADY_EXISTS,
                f"title={shortened(new.title)}: today has {_MAX_SAME_TITLES} requests with this title.",
                hint="Choose another title.",
            )
        return free

    def _raw(self, file: Path) -> str:
        try:
            # A link would show any file of this machine as a request.
            descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            raise no_such_request(file.stem) from error
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise no_such_request(file.stem)
        with open(descriptor, "rb") as opened:
            content = opened.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise self._too_large(file.stem)
        return content.decode("utf-8", "backslashreplace")

    def _check_size(self, request_id: str, text: str) -> None:
        if len(text.encode(errors="surrogatepass")) > MAX_FILE_BYTES:
            raise self._too_large(request_id)

    def _too_large(self, request_id: str) -> AgentError:
        return AgentError(
            AgentCode.INVALID_REQUEST,
            f"{self.relative_path(request_id)} would be, or is, larger than {MAX_FILE_BYTES} bytes.",
            hint="Shorten its want, or put the details in a file of the repository and name that.",
        )


def no_such_request(request_id: str) -> AgentError:
    return AgentError(
        AgentCode.REQUEST_NOT_FOUND,
        f"There is no request {shortened(request_id)}.",
        hint="`pyoco-client requests list` shows the requests.",
    )
