"""Evidence as text: durations and lists in English or Japanese."""

from collections.abc import Mapping
from typing import Any, Final

from pyoco_server.errors.error_table import Lang

_NOTHING = "-"
_SEPARATORS: Final[Mapping[Lang, str]] = {"en": ", ", "ja": "、"}
_UNITS: Final[Mapping[Lang, tuple[str, str, str]]] = {"en": (" s", " min", " h"), "ja": ("秒", "分", "時間")}


def in_words(evidence: Mapping[str, Any], lang: Lang) -> dict[str, str]:
    return {name: _word(name, value, lang) for name, value in evidence.items()}


def _word(name: str, value: Any, lang: Lang) -> str:
    if value is None or value == []:
        return _NOTHING
    if isinstance(value, list):
        return _SEPARATORS[lang].join(_named(each) for each in value)
    if name.endswith("_sec"):
        return _span(float(value), lang)
    return str(value)


def _named(value: Any) -> str:
    return str(value.get("worker_id") or value.get("task")) if isinstance(value, dict) else str(value)


def _span(seconds: float, lang: Lang) -> str:
    second, minute, hour = _UNITS[lang]
    if seconds < 120:
        return (
            f"{seconds:.0f}{second}" if seconds >= 10 or seconds == int(seconds) else f"{seconds:.1f}{second}"
        )
    return f"{seconds / 60:.0f}{minute}" if seconds < 7200 else f"{seconds / 3600:.0f}{hour}"
