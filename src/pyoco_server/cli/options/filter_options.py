"""The filters of lists and bulk commands as options: written once, taken by several commands."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from pyoco_server.cli.options.common_options import one_of, sendable_text
from pyoco_server.cli.options.moments import moment
from pyoco_server.http_client import LetterFilter, RunFilter, WaitFilter
from pyoco_server.records.models import Reason, RunStatus
from pyoco_server.records.wait_models import WaitState

Command = TypeVar("Command", bound=Callable[..., None])


def _text(help_text: str, metavar: str = "NAME") -> Any:
    return typer.Option(help=help_text, metavar=metavar, parser=sendable_text)


def _time(help_text: str) -> Any:
    return typer.Option(help=help_text, metavar="TIME", parser=moment)


def _wait_state(text: str) -> str:
    try:
        return WaitState(text.lower())
    except ValueError:
        raise typer.BadParameter(f"{text!r}: wanted one of {', '.join(WaitState)}") from None


def run_filter(
    *,
    status: Annotated[
        list[RunStatus] | None,
        typer.Option(
            help="Only runs with this status; repeatable.",
            metavar="STATUS",
            parser=one_of(RunStatus),
            autocompletion=lambda: list(RunStatus),
        ),
    ] = None,
    flow: Annotated[str | None, _text("Only runs of this flow.")] = None,
    tag: Annotated[str | None, _text("Only runs with this tag, or this among their tags.", "TAG")] = None,
    worker: Annotated[str | None, _text("Only runs that this worker executes or executed.", "ID")] = None,
    origin: Annotated[str | None, _text("Only reruns of this run.", "ID")] = None,
    search: Annotated[
        str | None, _text("Only runs with this text in their flow name, error, tags or params.", "TEXT")
    ] = None,
    updated_after: Annotated[
        float | None, _time("Only runs that changed since: 2h (ago), 2026-01-31T09:00 or unix seconds.")
    ] = None,
    updated_before: Annotated[float | None, _time("Only runs that did not change since.")] = None,
    submitted_after: Annotated[float | None, _time("Only runs that were submitted since.")] = None,
    submitted_before: Annotated[float | None, _time("Only runs that were submitted before.")] = None,
    workflow_yaml_sha256: Annotated[
        str | None, _text("Only runs of the flow.yaml with this digest.", "HEX")
    ] = None,
) -> RunFilter:
    return RunFilter(
        status=status or [],
        flow=flow,
        tag=tag,
        worker=worker,
        origin=origin,
        q=search,
        updated_after=updated_after,
        updated_before=updated_before,
        submitted_after=submitted_after,
        submitted_before=submitted_before,
        workflow_yaml_sha256=workflow_yaml_sha256,
    )


def letter_filter(
    *,
    reason: Annotated[
        list[str] | None,
        typer.Option(
            help="Only letters with this reason, such as execution_error; repeatable.",
            metavar="WORD",
            parser=sendable_text,
            autocompletion=lambda: list(Reason),
        ),
    ] = None,
    flow: Annotated[str | None, _text("Only letters of this flow.")] = None,
    tag: Annotated[str | None, _text("Only letters of this tag.", "TAG")] = None,
    worker: Annotated[str | None, _text("Only letters of this worker.", "ID")] = None,
    run_id: Annotated[str | None, _text("Only letters of this run.", "ID")] = None,
    search: Annotated[
        str | None, _text("Only letters with this text in their error, reason, flow, run or worker.", "TEXT")
    ] = None,
    since: Annotated[
        float | None, _time("Only letters since: 2h (ago), 2026-01-31T09:00 or unix seconds.")
    ] = None,
    until: Annotated[float | None, _time("Only letters until then.")] = None,
) -> LetterFilter:
    return LetterFilter(
        reason=reason or [],
        flow=flow,
        tag=tag,
        worker=worker,
        run_id=run_id,
        q=search,
        since=since,
        until=until,
    )


def wait_filter(
    *,
    state: Annotated[
        list[str] | None,
        typer.Option(
            help="Only waits that are open (the default), answered, expired or cancelled; repeatable.",
            metavar="STATE",
            parser=_wait_state,
            autocompletion=lambda: list(WaitState),
        ),
    ] = None,
    run_id: Annotated[str | None, _text("Only waits of this run.", "ID")] = None,
    flow: Annotated[str | None, _text("Only waits of this flow.")] = None,
    tag: Annotated[str | None, _text("Only waits of this tag.", "TAG")] = None,
    task: Annotated[str | None, _text("Only waits of this task.")] = None,
    assignee: Annotated[str | None, _text("Only waits that name this API key.")] = None,
) -> WaitFilter:
    return WaitFilter(state=state or [], run_id=run_id, flow=flow, tag=tag, task=task, assignee=assignee)


def takes(filter_of: Callable[..., Any]) -> Callable[[Command], Command]:
    """Have a command take the options of a filter; it gets what they make as its `wanted`."""
    options = list(inspect.signature(filter_of).parameters.values())

    def adopt(command: Command) -> Command:
        @wraps(command)
        def with_options(**given: Any) -> None:
            wanted = filter_of(**{option.name: given.pop(option.name) for option in options})
            command(**given, wanted=wanted)

        signature = inspect.signature(command)
        own = [each for each in signature.parameters.values() if each.name != "wanted"]
        # Where Typer looks for a command's options.
        with_options.__signature__ = signature.replace(parameters=_ordered(own, options))  # type: ignore[attr-defined]
        hints = get_type_hints(filter_of, include_extras=True) | get_type_hints(command, include_extras=True)
        with_options.__annotations__ = {name: hint for name, hint in hints.items() if name != "wanted"}
        return with_options  # type: ignore[return-value]

    return adopt


def _ordered(own: list[inspect.Parameter], options: list[inspect.Parameter]) -> list[inspect.Parameter]:
    """The context first, as it has to be, then the filter, then what the command has of its own."""
    context = [each for each in own if each.kind is not inspect.Parameter.KEYWORD_ONLY]
    return [*context, *options, *own[len(context) :]]
