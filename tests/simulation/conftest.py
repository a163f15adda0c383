"""What tests that play schedules have in common."""

import gc
import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def quiet() -> Iterator[None]:
    """No log lines of outages, and no garbage collection: tasks of crashed processes would be closed."""
    logging.disable(logging.CRITICAL)
    gc.disable()
    yield
    gc.enable()
    logging.disable(logging.NOTSET)
