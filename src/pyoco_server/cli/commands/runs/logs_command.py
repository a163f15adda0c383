"""`pyoco-client logs`."""

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Final

from rich.text import Text

from pyoco_server.cli.options.client_options import (
    RunIdArgument,
    RunIdOption,
    client_command,
    required_run_id,
)
from pyoco_server.cli.options.shared_options import flag, option, text_option
from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.console import print_note, printable, stdout_console
from pyoco_server.cli.views.copied_commands import with_server
from pyoco_server.errors import InvalidCliArgument
from pyoco_server.http_client import LogFilter, PyocoHttpClient

Line = Mapping[str, Any]

# Between task and text, so that the streams differ without colours as well.
_MARKS: Final = {"stdout": "|", "stderr": "!", "note": "#"}
_TEXT_STYLES: Final = {"stderr": "red", "note": "dim"}
_TASK_STYLES: Final = ("cyan", "green", "blue", "magenta", "yellow")
_LINES_AROUND: Final = 41
_UNKNOWN_TASK: Final = "-"
# Colour codes are removed: `printable` would leave them unreadable.
_COLOUR_CODE: Final = re.compile("\x1b\\[[0-9;:]*m")


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class LogStream(StrEnum):
    STDOUT = "stdout"
    STDERR = "stderr"
    NOTE = "note"


@client_command(
    "pyoco-client logs $RUN_ID",
    "pyoco-client logs $RUN_ID --follow --tail 20",
    "pyoco-client logs $RUN_ID --task load --stream stderr --search timeout",
    "pyoco-client logs $RUN_ID --around 12-0 --timestamps",
)
def logs(
    client: PyocoHttpClient,
    run: RunIdArgument = None,
    *,
    run_id: RunIdOption = None,
    follow: Annotated[bool, flag("--follow", "Keep following until the run ends.", "-f")] = False,
    task: Annotated[list[str] | None, text_option("Only lines of this task; repeatable.")] = None,
    stream: Annotated[
        list[LogStream] | None, option("Only stdout, stderr or note; repeatable.", "STREAM")
    ] = None,
    search: Annotated[
        str | None, text_option("Only lines containing this text (case-insensitive).", "TEXT")
    ] = None,
    tail: Annotated[int | None, option("Start with the last N lines.", "N", min=0)] = None,
    around: Annotated[
        str | None,
        text_option("Only the line with this id and those around it; `--output json` shows ids.", "ID"),
    ] = None,
    timestamps: Annotated[bool, flag("--timestamps", "Show the time of each line.")] = False,
    output: Annotated[LogFormat, option("text, or json: one object per line.", "FORMAT")] = LogFormat.TEXT,
) -> None:
    run_id = required_run_id(run, run_id)
    filters = LogFilter(task=task or [], stream=[str(each) for each in stream or []], search=search)
    if around is not None and (follow or tail is not None):
        raise InvalidCliArgument("use --around without --follow and --tail")
    printer = _LinePrinter(output, timestamps=timestamps)
    try:
        for line in _lines(client, run_id, filters, around=around, tail=tail, follow=follow):
            printer.show(line)
    except KeyboardInterrupt:
        if follow:
            command = with_server(f"pyoco-client get {run_id}")
            print_note(localized("Stopped following; the run continues: {command}", command=command))
        raise


def _lines(
    client: PyocoHttpClient,
    run_id: str,
    filters: LogFilter,
    *,
    around: str | None,
    tail: int | None,
    follow: bool,
) -> Iterator[Line]:
    if around is not None:
        yield from client.get_logs(run_id, around=around, limit=_LINES_AROUND, **filters)["lines"]
        return
    after: str | None = None
    if tail is not None:
        newest: deque[Line] = deque(maxlen=tail)
        for line in client.iter_logs(run_id, **filters):
            newest.append(line)
            after = line["id"]
        yield from newest
    elif not follow:
        yield from client.iter_logs(run_id, **filters)
    if follow:
        status = yield from client.follow_logs(run_id, after=after, **filters)
        deleted = localized("The run was deleted.")
        print_note(localized("The run is {status}.", status=status) if status else deleted)


class _LinePrinter:
    """Writes and flushes each line; in colour on a terminal."""

    def __init__(self, output: LogFormat, *, timestamps: bool) -> None:
        self._format = output
        self._timestamps = timestamps
        self._console = stdout_console()
        self._styles: dict[str, str] = {}

    def show(self, line: Line) -> None:
        if self._format is LogFormat.JSON:
            self._write(json.dumps(line, ensure_ascii=False))
        elif self._console.is_terminal:
            self._console.print(self._text(line), soft_wrap=True)
        else:
            self._write(self._text(line).plain)

    def _write(self, line: str) -> None:
        self._console.file.write(f"{line}\n")
        self._console.file.flush()

    def _text(self, line: Line) -> Text:
        task = line["task"] or _UNKNOWN_TASK
        style = self._styles.setdefault(task, _TASK_STYLES[len(self._styles) % len(_TASK_STYLES)])
        shown = line_text(line, style)
        return Text(f"{_time(line['ts'])} ", "dim").append(shown) if self._timestamps else shown


def line_text(line: Line, task_style: str = "cyan") -> Text:
    task, stream = line["task"] or _UNKNOWN_TASK, line["stream"]
    shown = Text.assemble((printable(task), task_style), (f" {_MARKS.get(stream, '|')} ", "dim"))
    return shown.append(_single_line(line["text"]), _TEXT_STYLES.get(stream))


def _single_line(text: str) -> str:
    """The text without control characters and line breaks."""
    return printable(_COLOUR_CODE.sub("", text)).replace("\n", "\N{REPLACEMENT CHARACTER}")


def _time(unix_seconds: float) -> str:
    return datetime.fromtimestamp(unix_seconds, UTC).astimezone().isoformat(" ", "milliseconds")
