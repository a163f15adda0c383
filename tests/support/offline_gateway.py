"""The gateway's app without a server and without NATS.

What is answered here with anything but a 503 has read and stored nothing.
"""

from typing import Any

import httpx

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api import create_app
from pyoco_server.http_api.gateway import Gateway


def offline_gateway(**settings: Any) -> httpx.AsyncClient:
    """A client of the app; there is nothing to close."""
    config = NatsBackendConfig(load_dotenv=False, **settings)
    app = create_app(config)
    app.state.gateway = Gateway(config)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000", trust_env=False)
