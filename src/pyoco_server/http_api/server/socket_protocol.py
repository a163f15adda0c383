"""uvicorn's WebSocket protocol, for handshakes that are refused with a response of the app."""

from typing import TYPE_CHECKING

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent


class SocketProtocol(WebSocketsSansIOProtocol):
    """One connection."""

    async def send(self, message: "ASGISendEvent") -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            # uvicorn notes this when the connection is lost, which is after the app has returned: until then
            # it logs an error and sends a second response.
            self.handshake_complete = True
