"""An httpx client whose errors are those of httpx, also under uvloop."""

from typing import Any

import httpx


class AsyncHttpClient(httpx.AsyncClient):
    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        try:
            return await super().send(request, **options)
        except AttributeError as error:
            # uvloop has no socket any more for a connection that was closed as soon as it was open, as when
            # the other process is killed. anyio asks that socket for its address.
            if error.obj is None and error.name == "getpeername":
                raise httpx.ConnectError("the connection was closed at once", request=request) from error
            raise
