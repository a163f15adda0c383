"""An exception as the outcome of a run reports it: its class, its traceback, and where it was raised."""

import traceback
from typing import Any, Final

from pyoco_server.telemetry.logging_config import origin_of
from pyoco_server.worker.engine.journal.json_values import escape_surrogates
from pyoco_server.worker.ipc.protocol import Origin

_TRACEBACK_CHARS: Final = 16384


def raised_fields(error: BaseException, *, with_traceback: bool = True) -> dict[str, Any]:
    """The exc_* fields of an Outcome."""
    fields: dict[str, Any] = {"exc_type": type(error).__name__}
    if (origin := origin_of(error)) is not None:
        file, func = escape_surrogates(str(origin["file"])), str(origin["func"])
        fields["exc_origin"] = Origin(file=file, line=int(origin["line"]), func=func)
    if with_traceback:
        text = "".join(traceback.format_exception(error))[-_TRACEBACK_CHARS:]
        fields["exc_traceback"] = escape_surrogates(text)
    return fields
