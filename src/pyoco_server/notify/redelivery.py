"""What became of an attempt to send a message, and how long the next one waits."""

import random
from typing import Final

# As they are counted.
OUTCOMES: Final = ("delivered", "failed", "given_up")
_MAX_BACKOFF_SEC: Final = 600.0


def backoff_sec(attempts: int) -> float:
    """Exponential from one second on, with jitter."""
    longest: float = min(_MAX_BACKOFF_SEC, 2.0 ** min(attempts - 1, 30))
    return random.uniform(longest / 2, longest)  # noqa: S311 - not for cryptography
