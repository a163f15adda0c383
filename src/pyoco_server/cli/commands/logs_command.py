"""`pyoco-client logs`: what a run printed, or prints."""

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from pyoco_server.cli.entry import examples
from pyoco_server.cli.options.client_options import ApiKey, RunId, Server, open_client
from pyoco_server.cli.options.common_options import sendable_text
from pyoco_server.cli.views.console import printable, results, say
from pyoco_server.http_client import LogFilter, PyocoHttpClient

EPILOG: Final = examples(
    "pyoco-client logs --run-id $RUN_ID",
    "pyoco-client logs --run-id $RUN_ID --follow --tail 20",
    "pyoco-client logs --run-id $RUN_ID --task load --stream stderr --search timeout",
)

Line = Mapping[str, Any]

# Between the task and the text: a reader without colours can tell the streams apart as well.
_MARKS: Final = {"stdout": "|", "stderr": "!", "note": "#"}
_TEXT_STYLES: Final = {"stderr": "red", "note": "dim"}
_TASK_STYLES: Final = ("cyan", "green", "blue", "magenta", "yellow")
_UNKNOWN_TASK: Final = "-"
# Colours that a task printed: harmless, but unreadable once their escape character is replaced.
_COLOUR_CODE: Final = re.compile("\x1b\\[[0-9;:]*m")


class LogForm(StrEnum):
    TEXT = "text"
    JSON = "json"


class LogStream(StrEnum):
    STDOUT = "stdout"
    STDERR = "stderr"
    NOTE = "note"


def logs(
    ctx: typer.Context,
    *,
    run_id: RunId,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the run has ended.", metavar="")
    ] = False,
    task: Annotated[
        list[str] | None,
        typer.Option(help="Only lines of this task; repeatable.", metavar="NAME", parser=sendable_text),
    ] = None,
    stream: Annotated[
        list[LogStream] | None,
        typer.Option(help="Only stdout, stderr or note; repeatable.", metavar="STREAM"),
    ] = None,
    search: Annotated[
        str | None,
        typer.Option(
            help="Only lines with this text, in upper or lower case.", metavar="TEXT", parser=sendable_text
        ),
    ] = None,
    tail: Annotated[
        int | None, typer.Option(help="Begin with the last lines only.", metavar="N", min=0)
    ] = None,
    timestamps: Annotated[
        bool, typer.Option("--timestamps", help="Show when each line was printed.", metavar="")
    ] = False,
    output: Annotated[
        LogForm, typer.Option(help="text, or json: one object a line.", metavar="FORM")
    ] = LogForm.TEXT,
    server: Server = None,
    api_key: ApiKey = None,
) -> None:
    """Show what a run printed."""
    wanted = LogFilter(task=task or [], stream=[str(each) for each in stream or []], search=search)
    printer = _LinePrinter(output, timestamps=timestamps)
    with open_client(ctx, server, api_key) as client:
        try:
            for line in _lines(client, run_id, wanted, tail=tail, follow=follow):
                printer.show(line)
        except KeyboardInterrupt:
            if follow:
                say(f"No longer following; the run goes on: pyoco-client get --run-id {run_id}")
            raise


def _lines(
    client: PyocoHttpClient, run_id: str, wanted: LogFilter, *, tail: int | None, follow: bool
) -> Iterator[Line]:
    after: str | None = None
    if tail is not None:
        newest: deque[Line] = deque(maxlen=tail)
        for line in client.iter_logs(run_id, **wanted):
            newest.append(line)
            after = line["id"]
        yield from newest
    elif not follow:
        yield from client.iter_logs(run_id, **wanted)
    if follow:
        status = yield from client.follow_logs(run_id, after=after, **wanted)
        say(f"The run is {status}." if status else "The run was removed.")


class _LinePrinter:
    """Writes each line at once; in colour where the standard output is a terminal."""

    def __init__(self, form: LogForm, *, timestamps: bool) -> None:
        self._form = form
        self._timestamps = timestamps
        self._console = results()
        self._styles: dict[str, str] = {}

    def show(self, line: Line) -> None:
        if self._form is LogForm.JSON:
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
        return Text(f"{_moment(line['ts'])} ", "dim").append(shown) if self._timestamps else shown


def line_text(line: Line, task_style: str = "cyan") -> Text:
    """A line with its task and a mark for its stream."""
    task, stream = line["task"] or _UNKNOWN_TASK, line["stream"]
    shown = Text.assemble((printable(task), task_style), (f" {_MARKS.get(stream, '|')} ", "dim"))
    return shown.append(_harmless(line["text"]), _TEXT_STYLES.get(stream))


def _harmless(text: str) -> str:
    """The text without what could steer a terminal, on one line."""
    return printable(_COLOUR_CODE.sub("", text)).replace("\n", "\N{REPLACEMENT CHARACTER}")


def _moment(unix_seconds: float) -> str:
    return datetime.fromtimestamp(unix_seconds, UTC).astimezone().isoformat(" ", "milliseconds")
