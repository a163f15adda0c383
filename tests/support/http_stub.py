"""An HTTP server with prepared responses, for tests of clients."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def answer(**members: Any) -> tuple[int, str, str]:
    return 200, "application/json", json.dumps(members)


def unavailable() -> tuple[int, str, str]:
    """The response of a gateway while NATS is down."""
    return 503, "application/problem+json", json.dumps({"title": "away", "err_id": "ERR-PYOCO-0003"})


def events(*events: tuple[str, str, dict[str, Any]]) -> tuple[int, str, str]:
    """A stream of events, each with its id, name and data, that is cut off after the last one."""
    lines = [f"id: {each}\nevent: {name}\ndata: {json.dumps(data)}\n\n" for each, name, data in events]
    return 200, "text/event-stream", "".join(lines)


def watched(event_id: str, **run: Any) -> tuple[int, str, str]:
    """A watch that sends one snapshot, and is cut off."""
    return events((event_id, "snapshot", {"run_id": "x", "snapshot": {"tasks": {}, **run}, "ts": 1.0}))


@contextmanager
def stub(answers: list[tuple[int, str, str]], **headers: str) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Its address, and the headers of each request; the last response is repeated.

    Method and path are among the headers as `:method` and `:path`. Each response has the given headers.
    """
    seen: list[dict[str, str]] = []
    remaining = list(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = {":method": self.command, ":path": self.path}
            seen.append(asked | {name.lower(): value for name, value in self.headers.items()})
            status, content_type, body = remaining.pop(0) if len(remaining) > 1 else remaining[0]
            self.send_response(status)
            self.send_header("content-type", content_type)
            self.send_header("content-length", str(len(body.encode())))
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(body.encode())

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.do_GET()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
