"""Log lines as JSON or as text.

Only the message and a fixed list of context fields are written, so that other extras of a log call (params, a
request, a key) never reach the output.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import traceback
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final, TextIO
from uuid import UUID

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors.error_table import Err
from pyoco_server.telemetry.key_redaction import redact_keys
from pyoco_server.telemetry.redaction import redact, redact_exception
from pyoco_server.telemetry.run_fields import fields_of_run

__all__ = [
    "CONTEXT_FIELDS",
    "configure_logging",
    "exception_fields",
    "origin_of",
    "redact",
    "redact_exception",
]

CONTEXT_FIELDS: Final = ("run_id", "flow_name", "tag", "worker_id", "err_id", "msg_id", "reason")

_UVICORN_LOGGERS: Final = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")

# Line ends, control characters, and lone surrogates, which UTF-8 cannot encode.
_UNSAFE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

_LEVEL_COLOURS: Final = {"DEBUG": 2, "INFO": 36, "WARNING": 33, "ERROR": 31, "CRITICAL": 35}


def configure_logging(
    *, service: str, config: NatsBackendConfig | None = None, stream: TextIO | None = None
) -> None:
    """Send every log record of this process to `stream` (default: the standard output).

    Another call replaces the previous configuration. Handlers of the program itself stay.
    """
    settings = NatsBackendConfig.from_env() if config is None else config
    # Bound now: `sys.stdout` is replaced while a flow runs.
    target = sys.stdout if stream is None else stream
    handler = _BestEffortHandler(target)
    handler.setFormatter(_formatter(service, settings, target))
    root = logging.getLogger()
    for earlier in [known for known in root.handlers if isinstance(known, _BestEffortHandler)]:
        root.removeHandler(earlier)
    root.addHandler(handler)
    root.setLevel(settings.log_level)
    # It logs the URL of each request, and the URL of a notification may be a secret.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    for name in _UVICORN_LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True


def exception_fields(error: BaseException, *, secrets: Iterable[object] = ()) -> dict[str, object]:
    """The exc_* fields of an exception, redacted, for the `extra=` of a log call or another process."""
    trace = "".join(traceback.format_exception(error))
    message, trace = redact_exception(_message_of(error), trace, secrets)
    found: dict[str, object] = {
        "exc_type": type(error).__name__,
        "exc_message": message,
        "exc_traceback": trace,
    }
    if (origin := origin_of(error)) is not None:
        found["exc_origin"] = origin
    return found


def origin_of(error: BaseException) -> dict[str, str | int] | None:
    """Where it was raised, in the form of `exc_origin`; None for an exception that never was."""
    innermost = error.__traceback__
    if innermost is None:
        return None
    while innermost.tb_next is not None:
        innermost = innermost.tb_next
    code = innermost.tb_frame.f_code
    return {"file": code.co_filename, "line": innermost.tb_lineno, "func": code.co_name}


def _message_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as failure:  # noqa: BLE001 - user code
        return f"(no message: its __str__ raised {type(failure).__name__})"


class _RecordFields:
    def __init__(self, *, service: str, utc: bool, include_traceback: bool) -> None:
        self._service = service
        self._utc = utc
        self._include_traceback = include_traceback

    def of(self, record: logging.LogRecord) -> dict[str, object]:
        return {
            "ts": self._time_of(record),
            "service": self._service,
            "level": record.levelname,
            "logger": record.name,
            "message": _text_of(record),
            **_place_of(record),
            **self._exception_of(record),
            **_context_of(record),
        }

    def _time_of(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        if self._utc:
            return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
        return moment.astimezone().isoformat(timespec="milliseconds")

    def _exception_of(self, record: logging.LogRecord) -> dict[str, object]:
        error = record.exc_info[1] if record.exc_info else None
        found = {**(exception_fields(error) if error else {}), **_exception_from_extras(record)}
        if not self._include_traceback:
            found.pop("exc_traceback", None)
        return found


def _text_of(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception as failure:  # noqa: BLE001 - user code
        # Without the arguments, which may be secret; the record has the place of the call.
        return f"{record.msg} (its arguments do not fit: {type(failure).__name__})"


def _place_of(record: logging.LogRecord) -> dict[str, object]:
    """Where it happened: for an exception that is reported elsewhere, where that was raised."""
    origin = vars(record).get("exc_origin")
    if isinstance(origin, Mapping):
        file, line, func = (_plain(origin.get(name)) for name in ("file", "line", "func"))
        return {"pathname": file, "lineno": line, "func": func}
    return {"pathname": record.pathname, "lineno": record.lineno, "func": record.funcName}


def _exception_from_extras(record: logging.LogRecord) -> dict[str, object]:
    """An exception of another process, given as text in the extras."""
    extras = vars(record)
    found: dict[str, object] = {
        name: extras[name]
        for name in ("exc_type", "exc_message", "exc_traceback")
        if isinstance(extras.get(name), str)
    }
    origin = extras.get("exc_origin")
    if isinstance(origin, Mapping):
        found["exc_origin"] = {name: _plain(origin.get(name)) for name in ("file", "line", "func")}
    return found


def _context_of(record: logging.LogRecord) -> dict[str, object]:
    extras = vars(record)
    given = {name: extras[name] for name in CONTEXT_FIELDS if extras.get(name) is not None}
    known = {**fields_of_run(given.get("run_id")), **given}
    return {name: _plain(known[name]) for name in CONTEXT_FIELDS if name in known}


def _plain(value: object) -> str | int | None:
    """A text or a number as it is; of other values only the type, since they may contain secrets."""
    if value is None or isinstance(value, (str, int)):
        return value
    return str(value) if isinstance(value, UUID) else f"<{type(value).__name__}>"


class _JsonFormatter(logging.Formatter):
    def __init__(self, fields: _RecordFields, *, ascii_only: bool) -> None:
        super().__init__()
        self._fields = fields
        self._ascii_only = ascii_only

    def format(self, record: logging.LogRecord) -> str:
        line = redact_keys(json.dumps(self._fields.of(record), ensure_ascii=self._ascii_only))
        # In JSON they occur only in strings, where the escape is equivalent.
        return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", line)


class _TextFormatter(logging.Formatter):
    def __init__(self, fields: _RecordFields, *, colour: bool) -> None:
        super().__init__()
        self._fields = fields
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        fields = self._fields.of(record)
        place = _one_line("{pathname}:{lineno} {func}".format_map(fields))
        line = f"{fields['ts']} {self._level(record)} {fields['service']} {record.name} ({place}): "
        line += _one_line(str(fields["message"]))
        context = [f"{name}={_one_line(str(fields[name]))}" for name in CONTEXT_FIELDS if name in fields]
        if context:
            line += f" [{' '.join(context)}]"
        if "exc_type" in fields:
            line += f" | {fields['exc_type']}: {_one_line(str(fields.get('exc_message', '')))}"
        if "exc_traceback" in fields:
            trace = str(fields["exc_traceback"]).rstrip("\n").split("\n")
            line = "\n    ".join([line, *map(_one_line, trace)])
        return redact_keys(line)

    def _level(self, record: logging.LogRecord) -> str:
        name = f"{record.levelname:<7}"
        number = _LEVEL_COLOURS.get(record.levelname)
        return f"\x1b[{number}m{name}\x1b[0m" if self._colour and number else name


def _one_line(text: str) -> str:
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def _formatter(service: str, config: NatsBackendConfig, stream: TextIO) -> logging.Formatter:
    fields = _RecordFields(
        service=service, utc=config.log_utc, include_traceback=config.log_include_traceback
    )
    if config.log_format == "text":
        return _TextFormatter(fields, colour=stream.isatty())
    encoding = (getattr(stream, "encoding", None) or "utf-8").lower().replace("_", "-")
    return _JsonFormatter(fields, ascii_only=encoding not in ("utf-8", "utf8"))


class _BestEffortHandler(logging.StreamHandler[TextIO]):
    """Writes to a stream. A failure does not stop the program and is reported once, on stderr."""

    _reported = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name logging calls
        failure = sys.exc_info()[1]
        if isinstance(failure, BrokenPipeError) and self.stream is sys.stdout:
            _discard_standard_output()
        if self._reported:
            return
        self._reported = True
        error = Err.LOGGING_FAILED
        try:
            sys.stderr.write(
                f"{error.err_id} {error.en}: {type(failure).__name__}: {failure}. {error.cure_en}\n"
            )
            sys.stderr.flush()
        except (OSError, ValueError, AttributeError):
            # The standard error is closed or missing as well.
            return


def _discard_standard_output() -> None:
    """Redirect the standard output to /dev/null: its reader is gone, and Python would fail at exit."""
    try:
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
        os.close(devnull)
    except (OSError, ValueError):
        # Not a real file descriptor: Python flushes nothing at exit.
        return
