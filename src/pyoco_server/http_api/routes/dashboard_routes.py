"""The dashboard, as it was built from ui/ into this package.

It is one page, whose views are in the fragment of the URL (`/#/runs`): all paths belong to the API. What it
needs before its first request is in its <html> tag: the language, and the header of the API key.
"""

import hashlib
import mimetypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from pyoco_server.api.endpoints.system_endpoints import DASHBOARD, DASHBOARD_FILE, DOCS
from pyoco_server.errors.error_table import system_language
from pyoco_server.http_api.gateway import gateway_of
from pyoco_server.http_api.responses.http_problems import preferred_language
from pyoco_server.http_api.routing import handles
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
    "ja": "このインストールにはダッシュボードが含まれていません。Node 20 以上をインストールし、"
    "ソースツリーで `make ui` を実行するか、配布版の wheel を使ってください。"
    "API は pyoco-client から、または /openapi.json の仕様に沿って利用できます",
}


@dataclass(frozen=True, slots=True)
class File:
    """One file of the dashboard."""

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

    def response(self, request: Request, *, varies: Sequence[str] = ()) -> Response:
        vary = ", ".join(("Accept-Encoding", *varies))
        headers = {"Cache-Control": self.caching, "ETag": self.etag, "Vary": vary}
        if request.headers.get("if-none-match") == self.etag:
            return Response(status_code=304, headers=headers)
        if self.compressed is not None and "gzip" in request.headers.get("accept-encoding", ""):
            headers["Content-Encoding"] = "gzip"
            return Response(self.compressed, media_type=self.media_type, headers=headers)
        return Response(self.content, media_type=self.media_type, headers=headers)


def load(folder: Path) -> dict[str, File]:
    """Every file by its name, a megabyte in all; read once, when it has been built."""
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


@handles(DASHBOARD)
async def index(request: Request) -> Response:
    built = load(FOLDER).get(_INDEX)
    if built is None:
        raise HTTPException(404, _NOT_BUILT[preferred_language(request.headers.get("accept-language"))])
    page = built.content.replace(_TAG.encode(), _html_tag(request).encode(), 1)
    return File.of(_INDEX, page, compressed=None).response(request, varies=("Accept-Language",))


@handles(DOCS)
async def docs(request: Request) -> Response:
    # Relative: the app may be mounted below another path.
    return RedirectResponse("./#/api")


@handles(DASHBOARD_FILE)
async def file(request: Request, path: str) -> Response:
    found = load(FOLDER).get(path)
    if found is None:
        raise HTTPException(404)
    return found.response(request)


def _html_tag(request: Request) -> str:
    config = gateway_of(request).config
    attributes = {
        "lang": _language(request) if config.dashboard_lang == "auto" else config.dashboard_lang,
        "data-auth": config.http_auth_mode,
        "data-api-key-header": config.http_api_key_header,
        "data-version": __version__,
        "data-requests": "true" if config.agent_repo else "false",
    }
    text = " ".join(f'{name}="{escape(value)}"' for name, value in attributes.items())
    return f"<html {text}>"


def _language(request: Request) -> str:
    """That of the browser; of the server, for a client that names none."""
    accepted = request.headers.get("accept-language")
    return preferred_language(accepted) if accepted else system_language()
