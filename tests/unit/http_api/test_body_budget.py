"""The bytes of unproven senders that a gateway holds."""

import pytest

from pyoco_server.errors import UploadsBusy
from pyoco_server.http_api.requests.body_budget import BodyBudget

MIB = 1024 * 1024


def test_senders_share_it_and_what_is_over_is_refused() -> None:
    budget = BodyBudget(MIB)
    with budget.reserving() as first, budget.reserving() as second:
        first(40 * MIB)
        second(24 * MIB)
        with pytest.raises(UploadsBusy) as refused:
            second(1)
        assert (refused.value.retry_after_sec, refused.value.headers) == (2, {"Connection": "close"})
        first(0)
    with budget.reserving() as again:
        again(64 * MIB)


def test_there_is_room_for_the_largest_bodies() -> None:
    assert BodyBudget(25 * MIB).max_bytes == 100 * MIB
