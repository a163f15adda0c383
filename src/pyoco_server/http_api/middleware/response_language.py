"""Which of our two languages a reader wants, by Accept-Language."""

from pyoco_server.errors.error_table import Lang


def preferred_language(accept_language: str | None) -> Lang:
    """`ja` when it is wanted more than English; anything else gets English."""
    weights: dict[str, float] = {}
    for item in (accept_language or "").split(","):
        tag, _, parameters = item.strip().partition(";")
        primary = tag.strip().lower().partition("-")[0]
        weight = _weight(parameters)
        weights[primary] = max(weight, weights.get(primary, 0.0))
    japanese = weights.get("ja", 0.0)
    return "ja" if japanese > weights.get("en", 0.0) else "en"


def _weight(parameters: str) -> float:
    name, _, value = parameters.strip().partition("=")
    if name.strip().lower() != "q":
        return 1.0
    try:
        return float(value)
    except ValueError:
        return 0.0
