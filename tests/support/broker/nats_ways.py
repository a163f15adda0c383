"""The two ways to use nats-py: the fast path, and its public API."""

import pytest

from pyoco_server.broker.client import direct_client

WAYS = ("fast path", "public API")


def use(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every client made from now on use nats-py this way."""
    if way != WAYS[0]:
        monkeypatch.setattr(direct_client, "fast_path_mismatch", lambda: "for a test")
