"""Where a webhook is sent; apart from its client, which imports httpx."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Target:
    """A receiver of notifications."""

    url: str = field(repr=False)
    secret: str = field(default="", repr=False)
