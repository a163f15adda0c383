"""The environment file, and warnings about unknown PYOCO_ variables."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from dotenv import dotenv_values

from pyoco_server.config.setting import ENV_PREFIX, Setting
from pyoco_server.errors import FieldProblem

_log = logging.getLogger(__name__)

# Variables of the engine and its plug-ins.
_ENGINE_VARIABLES: Final = frozenset(
    ENV_PREFIX + name
    for name in (
        "CUTE",
        "DISCOVERY_MODULES",
        "MAX_LOG_BYTES",
        "MAX_RUN_HISTORY",
        "RUN_ARCHIVE_DIR",
        "WEBHOOK_RETRIES",
        "WEBHOOK_SECRET",
        "WEBHOOK_TIMEOUT",
        "WEBHOOK_URL",
    )
)


def read_env_file(
    real: Mapping[str, str], *, load: Setting, named: Setting
) -> tuple[dict[str, str], list[FieldProblem]]:
    """The PYOCO_ variables of the environment file, which only the real environment can name."""
    try:
        enabled = load.parse(real.get(load.name) or load.shown_default)
    except ValueError:
        return {}, []  # reported with all the other settings
    if not enabled:
        return {}, []
    given = real.get(named.name)
    path = Path(given or str(named.default))
    if not given and not path.exists():
        return {}, []
    try:
        # Opened here: the library treats a missing file as an empty one.
        # "utf-8-sig": a byte order mark would otherwise become part of the first name.
        with path.open(encoding="utf-8-sig") as lines:
            content = dotenv_values(stream=lines)
    except (OSError, UnicodeDecodeError) as error:
        return {}, [FieldProblem(named.name, f"expected a readable file ({error})", named.shown(str(path)))]
    return {name: text or "" for name, text in content.items() if name.startswith(ENV_PREFIX)}, []


def warn_about_unknown(given: Mapping[str, str], settings: Iterable[Setting]) -> None:
    """Log each unknown PYOCO_ variable, with the most similar setting."""
    by_field = {row.field: row.name for row in settings}
    known = {*by_field.values(), *_ENGINE_VARIABLES}
    for name in sorted(given):
        if name.startswith(ENV_PREFIX) and name not in known:
            # Compared without the prefix, which would make everything look alike.
            nearest = difflib.get_close_matches(name.removeprefix(ENV_PREFIX).lower(), by_field, n=1)
            hint = f"; did you mean {by_field[nearest[0]]}?" if nearest else ""
            _log.warning("%s is not a setting of this product and has no effect%s", name, hint)
