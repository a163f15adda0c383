"""The language of the locale variables."""

import os
from collections.abc import Mapping

from pyoco_server.errors.error_table import Lang


def system_language(environ: Mapping[str, str] = os.environ) -> Lang:
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if locale := environ.get(name):
            return "ja" if locale.lower().startswith("ja") else "en"
    return "en"
