"""Durations and ages as text: one form for the explanations and the CLI.

The dashboard writes them the same way (ui/src/i18n/time.ts).
"""

from collections.abc import Mapping
from typing import Final

from pyoco_server.errors.error_table import Lang

_SECONDS: Final = {"y": 31_536_000, "mo": 2_592_000, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_WORDS: Final[Mapping[Lang, Mapping[str, str]]] = {
    "en": {unit: unit for unit in _SECONDS},
    "ja": {"y": "年", "mo": "か月", "d": "日", "h": "時間", "m": "分", "s": "秒"},
}
_GAPS: Final[Mapping[Lang, str]] = {"en": " ", "ja": ""}
# A duration has two of these.
_PAIRS: Final = (("d", "h"), ("h", "m"), ("m", "s"))


def duration_text(seconds: float, lang: Lang = "en") -> str:
    """`611ms`, `1.5s`, `12s`, `4m 0s`, `2h 5m`, `3d 4h`; in Japanese `4分0秒`."""
    if 0 < seconds < 0.9995:
        return f"{seconds * 1000:.0f}ms"
    words = _WORDS[lang]
    if seconds < 9.95:
        return f"{round(max(0.0, seconds), 1):g}{words['s']}"
    whole = round(seconds)
    for unit, lower in _PAIRS:
        if whole >= _SECONDS[unit]:
            rest = whole % _SECONDS[unit] // _SECONDS[lower]
            return f"{whole // _SECONDS[unit]}{words[unit]}{_GAPS[lang]}{rest}{words[lower]}"
    return f"{whole}{words['s']}"


def interval_text(seconds: float, lang: Lang = "en") -> str:
    """A configured interval, in full and without zero parts: `15m`, `1h 30m`."""
    if seconds < 1 or seconds % 1:
        return duration_text(seconds, lang)
    rest, parts = int(seconds), list[str]()
    for unit in ("d", "h", "m", "s"):
        count, rest = divmod(rest, _SECONDS[unit])
        if count:
            parts.append(f"{count}{_WORDS[lang][unit]}")
    return _GAPS[lang].join(parts)


def rough_text(seconds: float, lang: Lang = "en") -> str:
    """In its largest unit, rounded down: `4m`."""
    whole = int(max(0.0, seconds))
    unit = next((unit for unit, length in _SECONDS.items() if whole >= length), "s")
    return f"{whole // _SECONDS[unit]}{_WORDS[lang][unit]}"


def age_text(seconds: float, lang: Lang = "en") -> str:
    """`4m ago`, `4分前`."""
    return f"{rough_text(seconds, lang)}{'前' if lang == 'ja' else ' ago'}"


def until_text(seconds: float, lang: Lang = "en") -> str:
    """`in 4m`, `4分後`."""
    rough = rough_text(seconds, lang)
    return f"{rough}後" if lang == "ja" else f"in {rough}"
