"""A client of the app without NATS."""

import httpx
import pytest

from tests.support.offline_gateway import offline_gateway


@pytest.fixture(scope="session")
def http() -> httpx.AsyncClient:
    return offline_gateway()
