"""An HTTP receiver of notifications that records requests and responds as the test says."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.waiting import LIMIT_SEC


@dataclass(frozen=True)
class WebhookRequest:
    """One POST."""

    path: str
    headers: dict[str, str]
    raw: bytes
    # On the monotonic clock.
    at: float = 0.0

    @property
    def body(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.raw)
        return found

    @property
    def event_id(self) -> str:
        return self.headers["webhook-id"]


@dataclass
class WebhookReceiver:
    url: str = ""
    requests: list[WebhookRequest] = field(default_factory=list)
    # The statuses of the responses, in order; then 204.
    statuses: list[int] = field(default_factory=list)
    # While it is cleared, requests get no response.
    responding: threading.Event = field(default_factory=threading.Event)

    def ids(self) -> list[str]:
        return [request.event_id for request in self.requests]


@contextmanager
def webhook_receiver(*statuses: int) -> Iterator[WebhookReceiver]:
    receiver = WebhookReceiver(statuses=list(statuses))
    receiver.responding.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            receiver.requests.append(WebhookRequest(self.path, headers, raw, time.monotonic()))
            status = receiver.statuses.pop(0) if receiver.statuses else 204
            receiver.responding.wait(LIMIT_SEC)
            try:
                self.send_response(status)
                self.send_header("location", "/elsewhere")
                self.send_header("content-length", "0")
                self.end_headers()
            except OSError:
                self.close_connection = True  # the client has gone

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    receiver.url = f"http://127.0.0.1:{server.server_port}/hooks/in"
    try:
        yield receiver
    finally:
        receiver.responding.set()
        server.shutdown()
        thread.join()
        server.server_close()
