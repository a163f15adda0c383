"""A real receiver of notifications: it keeps what it is sent, and answers as the test has it."""

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
class Told:
    """One POST."""

    path: str
    headers: dict[str, str]
    raw: bytes
    # When it came, on the monotonic clock.
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
    told: list[Told] = field(default_factory=list)
    # The answers to give one after the other; then it is 204.
    statuses: list[int] = field(default_factory=list)
    # Cleared, it leaves whoever tells it something without an answer.
    answering: threading.Event = field(default_factory=threading.Event)

    def ids(self) -> list[str]:
        return [told.event_id for told in self.told]


@contextmanager
def webhook_receiver(*statuses: int) -> Iterator[WebhookReceiver]:
    receiver = WebhookReceiver(statuses=list(statuses))
    receiver.answering.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            receiver.told.append(Told(self.path, headers, raw, time.monotonic()))
            status = receiver.statuses.pop(0) if receiver.statuses else 204
            receiver.answering.wait(LIMIT_SEC)
            try:
                self.send_response(status)
                self.send_header("location", "/elsewhere")
                self.send_header("content-length", "0")
                self.end_headers()
            except OSError:
                self.close_connection = True  # whoever asked does not wait any more

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    receiver.url = f"http://127.0.0.1:{server.server_port}/hooks/in"
    try:
        yield receiver
    finally:
        receiver.answering.set()
        server.shutdown()
        thread.join()
        server.server_close()
