"""`GET /` and `GET /static/*`: the dashboard, as it was built from ui/ into this package.

It is one page. Its views are behind the `#` of the address (`/#/runs`), since the paths before it belong to
the API: a browser that opens `/runs` gets what every client gets. What the page has to know before its first
request stands in its <html> tag: the language, and where an API key goes.
"""

import hashlib
import mimetypes
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.middleware.response_language import preferred_language
from pyoco_server.system.system_language import system_language
from pyoco_server.version import __version__

FOLDER: Final = Path(__file__).parents[2] / "dashboard"

_INDEX: Final = "index.html"
_TAG: Final = '<html lang="en">'
_COMPRESSED: Final = ".gz"
# The names of these files have a hash of their content: another content has another name.
_HASHED: Final = "assets/"
_FOREVER: Final = "public, max-age=31536000, immutable"
_ASK_FIRST: Final = "no-cache"
_NOT_BUILT: Final = {
    "en": "the dashboard was not built into this installation: install Node 20 or newer and run `make ui` in "
    "the source tree, or install a released wheel; see /openapi.json for the API, or use pyoco-client",
    "ja": "このインストールにはダッシュボードが含まれていません。Node 20 以上を入れてソースツリーで "
    "`make ui` を実行するか、配布されている wheel を使ってください。"
    "API は /openapi.json、または pyoco-client で使えます",
}


@dataclass(frozen=True, slots=True)
class File:
    """One file of the dashboard, ready to be sent."""

    content: bytes
    compressed: bytes | None
    media_type: str
    caching: str
    etag: str

    @classmethod
    def of(cls, name: str, content: bytes, compressed: bytes | None) -> "File":
        media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
        caching = _FOREVER if name.startswith(_HASHED) else _ASK_FIRST
        return cls(content, compressed, media_type, caching, f'"{hashlib.sha256(content).hexdigest()[:20]}"')

    def answer(self, request: Request) -> Response:
        headers = {"Cache-Control": self.caching, "ETag": self.etag, "Vary": "Accept-Encoding"}
        if request.headers.get("if-none-match") == self.etag:
            return Response(status_code=304, headers=headers)
        if self.compressed is not None and "gzip" in request.headers.get("accept-encoding", ""):
            headers["Content-Encoding"] = "gzip"
            return Response(self.compressed, media_type=self.media_type, headers=headers)
        return Response(self.content, media_type=self.media_type, headers=headers)


def load(folder: Path) -> dict[str, File]:
    """Every file by its name, a megabyte in all. There are only these names: no path leads elsewhere.

    Read once, but not before it is there: it may be built while the gateway runs.
    """
    return _read(folder) if (folder / _INDEX).is_file() else {}


@cache
def _read(folder: Path) -> dict[str, File]:
    return {
        (name := path.relative_to(folder).as_posix()): File.of(name, path.read_bytes(), _compressed(path))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != _COMPRESSED
    }


def _compressed(path: Path) -> bytes | None:
    beside = path.with_name(path.name + _COMPRESSED)
    return beside.read_bytes() if beside.is_file() else None


class Dashboard:
    """The endpoints."""

    def __init__(self, config: NatsBackendConfig) -> None:
        language = system_language() if config.dashboard_lang == "auto" else config.dashboard_lang
        told = {
            "lang": language,
            "data-auth": config.http_auth_mode,
            "data-api-key-header": config.http_api_key_header,
            "data-version": __version__,
        }
        attributes = " ".join(f'{name}="{escape(value)}"' for name, value in told.items())
        self._tag = f"<html {attributes}>"

    async def index(self, request: Request) -> Response:
        built = load(FOLDER).get(_INDEX)
        if built is None:
            raise HTTPException(404, _NOT_BUILT[preferred_language(request.headers.get("accept-language"))])
        page = built.content.replace(_TAG.encode(), self._tag.encode(), 1)
        return File.of(_INDEX, page, compressed=None).answer(request)

    async def file(self, request: Request) -> Response:
        found = load(FOLDER).get(request.path_params["path"])
        if found is None:
            raise HTTPException(404)
        return found.answer(request)
