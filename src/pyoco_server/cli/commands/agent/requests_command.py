"""`pyoco-client requests`: agent requests, coding work in the repository that a gateway serves."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from pyoco_server.cli.forms.standard_input import piped_text
from pyoco_server.cli.options.client_options import OutputOption, client_command
from pyoco_server.cli.options.shared_options import flag, option, text_option
from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.agent_request_views import (
    doctor_view,
    request_detail_view,
    request_view,
    requests_view,
)
from pyoco_server.cli.views.console import pairs, print_note, printable, show, stdout_console
from pyoco_server.cli.views.copied_commands import with_server
from pyoco_server.errors import InvalidCliArgument
from pyoco_server.http_client import PyocoHttpClient

_STDIN = "-"

RequestIdArgument = Annotated[
    str, typer.Argument(help="The id shown by `requests list`.", metavar="REQUEST_ID")
]
WantFile = Annotated[Path | None, option("A file with the want; - reads the standard input.", "FILE")]


@client_command(
    "pyoco-client requests list",
    "pyoco-client requests list --status running --status needs_input",
    "pyoco-client requests list --search timeout --output json",
)
def list_requests(
    client: PyocoHttpClient,
    *,
    status: Annotated[
        list[str] | None,
        text_option("Only this status: queued, running, needs_input, failed or done; repeatable.", "STATUS"),
    ] = None,
    search: Annotated[str | None, text_option("Only with this text in title or want.", "TEXT")] = None,
    sort: Annotated[
        str | None,
        text_option(
            "priority, updated or created, with _desc or _asc; several separated by commas (default: "
            "priority_desc,updated_desc).",
            "ORDER",
        ),
    ] = None,
    output: OutputOption = None,
) -> None:
    found = client.list_requests(status=status or [], q=search, sort=sort)
    show(found["items"], output, requests_view)


@client_command(
    'pyoco-client requests create "Session timeout" --want "End the session after 30 minutes." --enqueue',
    'pyoco-client requests create "Session timeout" --want-file want.md --priority P1 --tag auth',
)
def create(
    client: PyocoHttpClient,
    title: Annotated[str, typer.Argument(help="What it is about, in one line.", metavar="TITLE")],
    *,
    want: Annotated[str | None, text_option("What you want, as Markdown.", "TEXT")] = None,
    want_file: WantFile = None,
    priority: Annotated[str | None, text_option("P0, P1, P2 or P3 (default: P2).", "PRIORITY")] = None,
    tag: Annotated[list[str] | None, text_option("A label; repeatable.", "LABEL")] = None,
    base: Annotated[str | None, text_option("The branch to start from.", "BRANCH")] = None,
    branch: Annotated[
        str | None, text_option("The branch to work on (default: ai/REQUEST_ID).", "BRANCH")
    ] = (None),
    request_id: Annotated[
        str | None, text_option("The id (default: the day and a slug of the title).", "ID", "--id")
    ] = None,
    enqueue: Annotated[bool, flag("--enqueue", "Also have it executed.")] = False,
    output: OutputOption = None,
) -> None:
    created = client.create_request(
        title,
        _want(want, want_file) or "",
        priority=priority,
        tags=tag or [],
        base=base,
        branch=branch,
        request_id=request_id,
    )["request"]
    if enqueue:
        created = client.enqueue_request(created["id"])["request"]
    show(created, output, request_view)


@client_command("pyoco-client requests show 20261117-session-timeout")
def show_request(
    client: PyocoHttpClient,
    request_id: RequestIdArgument,
    *,
    raw: Annotated[bool, flag("--raw", "Print the file as it is.")] = False,
    output: OutputOption = None,
) -> None:
    if raw:
        _write(client.raw_request(request_id))
        return
    show(client.get_request(request_id), output, request_detail_view)


@client_command(
    "pyoco-client requests update 20261117-session-timeout --priority P0",
    'pyoco-client requests update 20261117-session-timeout --title "Session timeout" --tag auth --tag web',
    "pyoco-client requests update 20261117-session-timeout --want-file want.md",
)
def update(
    client: PyocoHttpClient,
    request_id: RequestIdArgument,
    *,
    title: Annotated[str | None, text_option("What it is about, in one line.", "TITLE")] = None,
    priority: Annotated[str | None, text_option("P0, P1, P2 or P3.", "PRIORITY")] = None,
    tag: Annotated[
        list[str] | None, text_option("A label; repeatable. They replace all earlier ones.", "LABEL")
    ] = None,
    no_tags: Annotated[bool, flag("--no-tags", "Remove all labels.")] = False,
    want: Annotated[
        str | None, text_option("What you want, as Markdown; it replaces the text.", "TEXT")
    ] = None,
    want_file: WantFile = None,
    output: OutputOption = None,
) -> None:
    if tag and no_tags:
        raise InvalidCliArgument("use either --tag or --no-tags, not both")
    tags = [] if no_tags else tag or None
    text = _want(want, want_file)
    if title is None and priority is None and tags is None and text is None:
        raise InvalidCliArgument("say what changes: --title, --priority, --tag, --no-tags or --want")
    changed = client.update_request(request_id, title=title, priority=priority, tags=tags, want=text)
    show(changed["request"], output, request_view)


@client_command("pyoco-client requests delete 20261117-session-timeout")
def delete(client: PyocoHttpClient, request_id: RequestIdArgument, *, output: OutputOption = None) -> None:
    deleted = client.delete_request(request_id)
    view = pairs([("id", request_id), ("deleted", localized("yes"))])
    show({"id": request_id, "deleted": deleted}, output, lambda _: view)


@client_command("pyoco-client requests enqueue 20261117-session-timeout")
def enqueue(client: PyocoHttpClient, request_id: RequestIdArgument, *, output: OutputOption = None) -> None:
    show(client.enqueue_request(request_id)["request"], output, request_view)


@client_command("pyoco-client requests stop 20261117-session-timeout")
def stop(client: PyocoHttpClient, request_id: RequestIdArgument, *, output: OutputOption = None) -> None:
    show(client.stop_request(request_id)["request"], output, request_view)


@client_command(
    'pyoco-client requests resume 20261117-session-timeout --answer "30 minutes"',
    "pyoco-client requests resume 20261117-session-timeout",
)
def resume(
    client: PyocoHttpClient,
    request_id: RequestIdArgument,
    *,
    answer: Annotated[
        str | None,
        text_option("The answer; - reads the standard input. Without it, you are asked.", "TEXT"),
    ] = None,
    wait_id: Annotated[
        str | None,
        text_option("Answer only this question: `question.wait_id` of `requests show --output json`.", "ID"),
    ] = None,
    output: OutputOption = None,
) -> None:
    if answer is None:
        answer, asked = _asked(client, request_id)
        # The answer to another question than the one that was read is refused.
        wait_id = wait_id or asked
    elif answer == _STDIN:
        answer = _read(Path(_STDIN))
    show(client.resume_request(request_id, answer, wait_id=wait_id)["request"], output, request_view)


@client_command("pyoco-client requests rerun 20261117-session-timeout")
def rerun(client: PyocoHttpClient, request_id: RequestIdArgument, *, output: OutputOption = None) -> None:
    show(client.rerun_request(request_id)["request"], output, request_view)


@client_command(
    "pyoco-client requests logs 20261117-session-timeout --follow",
    "pyoco-client requests logs 20261117-session-timeout --run 001 --file unit.log",
)
def logs(
    client: PyocoHttpClient,
    request_id: RequestIdArgument,
    *,
    run: Annotated[str | None, text_option("The run, such as 001 (default: the latest one).", "RUN")] = None,
    follow: Annotated[bool, flag("--follow", "Keep following until the run ends.", "-f")] = False,
    file: Annotated[
        str | None, text_option("Another file of the run, such as unit.log or plan.json.", "NAME")
    ] = None,
) -> None:
    if follow and file is not None:
        raise InvalidCliArgument("only the log of a run can be followed; use either --follow or --file")
    number = run or client.latest_request_run(request_id)["run"]["id"]
    if not follow:
        # It is complete; what the gateway stores of a run is bounded.
        _write(client.request_artifact(request_id, number, file or "runner.log"))
        return
    runs = client.list_request_runs(request_id)["items"]
    followed = next((each["pyoco_run_id"] for each in runs if each["id"] == number), None)
    if followed is None:
        raise InvalidCliArgument(f"the request {request_id} has no run {number} that can be followed")
    try:
        for line in client.follow_logs(followed):
            _write(f"{line['text']}\n")
    except KeyboardInterrupt:
        command = with_server(f"pyoco-client requests show {request_id}")
        print_note(localized("Stopped following; the run continues: {command}", command=command))
        raise
    status = client.get_request(request_id)["request"]["status"]
    print_note(localized("The request is {status}.", status=status))


@client_command("pyoco-client requests doctor")
def doctor(client: PyocoHttpClient, *, output: OutputOption = None) -> None:
    report = client.doctor()
    show(report["checks"], output, doctor_view)
    if not all(check["ok"] for check in report["checks"]):
        raise typer.Exit(1)


def _want(text: str | None, file: Path | None) -> str | None:
    """What the options say; None if neither is given."""
    if text is not None and file is not None:
        raise InvalidCliArgument("use either --want or --want-file, not both")
    return text if file is None else _read(file)


def _read(file: Path) -> str:
    try:
        return piped_text() if str(file) == _STDIN else file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidCliArgument(f"{file} is not UTF-8 text: {error}") from error


def _asked(client: PyocoHttpClient, request_id: str) -> tuple[str, str]:
    """What the person types after the question, and the wait of that question."""
    question = client.get_request(request_id)["request"]["question"]
    if question is None or not sys.stdin.isatty():
        raise InvalidCliArgument(
            f"the request {request_id} asks nothing now"
            if question is None
            else "say the answer with --answer TEXT, or with --answer - on the standard input"
        )
    print_note(question["text"])
    return typer.prompt(localized("Answer")), question["wait_id"]


def _write(text: str) -> None:
    console = stdout_console()
    console.file.write("\n".join(map(printable, text.split("\n"))))
    console.file.flush()
