"""The simulation finds reverted fixes by itself: here those that it finds within seconds."""

import pytest

from tests.simulation.fixes import BY_NAME
from tests.simulation.reverted_fixes import find

pytestmark = pytest.mark.usefixtures("quiet")


@pytest.mark.parametrize(
    "name",
    [
        "log-ended-by-a-refused-write",
        "purged-run-stays-listed",
        "two-retries",
        "limit-by-the-wall-clock",
        "hook-message-acknowledged-first",
        "claims-before-it-is-seen",
    ],
)
def test_simulation_finds_a_reverted_fix(name: str) -> None:
    found = find(BY_NAME[name], seconds=120.0)
    assert found.result is not None
    assert found.result.failure is not None
