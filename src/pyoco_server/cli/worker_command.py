"""`pyoco-worker`. The worker itself is imported when the command line is valid."""

import re
from pathlib import Path
from typing import Annotated

import typer

from pyoco_server.cli.entry import Version, run
from pyoco_server.cli.lazy_group import FastCommand, epilog, new_app
from pyoco_server.cli.options.shared_options import (
    Concurrency,
    FlowsFolder,
    NatsUrl,
    ReadyFd,
    checked_tag,
    checked_tags,
    comma_separated,
    option,
)
from pyoco_server.errors import InvalidCliArgument

app = new_app()


def _checked_worker_id(worker_id: str) -> str:
    from pyoco_server.records.value_types import WORKER_ID_EXPECTED, WORKER_ID_PATTERN  # noqa: PLC0415 - slow

    if not re.fullmatch(WORKER_ID_PATTERN, worker_id):
        raise typer.BadParameter(f"{worker_id!r}: {WORKER_ID_EXPECTED}")
    return worker_id


def _checked_resolver(path: str) -> str:
    file, _, function = path.rpartition(":")
    if file.endswith(".py") and Path(file).is_file() and function.isidentifier():
        # Absolute: the executors may run in another folder.
        return f"{Path(file).resolve()}:{function}"
    if not re.fullmatch(r"[\w.]+:\w+", path) or file.endswith(".py"):
        raise typer.BadParameter(
            f"{path!r}: expected module:function, as in myflows.registry:resolve, or the path of an existing "
            "file, as in flows/registry.py:resolve"
        )
    return path


@app.command(
    cls=FastCommand,
    help="Execute runs with the given tags until Ctrl-C or SIGTERM, then finish current runs and exit.",
    epilog=epilog(
        "pyoco-worker --flows ./flows",
        "pyoco-worker --resolver myflows.registry:resolve --tag gpu --concurrency 4",
        "pyoco-worker --flows ./flows --tags cpu,linux --worker-id build-7",
    ),
)
def worker(
    *,
    flows: FlowsFolder = None,
    resolver: Annotated[
        str | None,
        option(
            "Alternative to --flows: a function that returns the flow for a name, of a module or of a file "
            "(flows/registry.py:resolve).",
            "MODULE:FUNCTION",
            parser=_checked_resolver,
        ),
    ] = None,
    tag: Annotated[
        list[str] | None,
        option(
            "Execute runs with this tag; repeatable (default: PYOCO_DEFAULT_TAG).", "TAG", parser=checked_tag
        ),
    ] = None,
    tags: Annotated[
        str | None, option("Same as --tag, separated by commas.", "A,B", parser=checked_tags)
    ] = None,
    worker_id: Annotated[
        str | None,
        option("Unique worker id (default: host name and process id).", "ID", parser=_checked_worker_id),
    ] = None,
    concurrency: Concurrency = None,
    nats_url: NatsUrl = None,
    ready_fd: ReadyFd = None,
    version: Version = False,
) -> None:
    if flows and resolver:
        raise InvalidCliArgument("use either --flows or --resolver, not both")
    from pyoco_server.cli.worker_process import run_worker  # noqa: PLC0415 - slow to import

    code = run_worker(
        flows=flows,
        resolver=resolver,
        tags=list(dict.fromkeys([*(tag or ()), *comma_separated(tags)])),
        worker_id=worker_id,
        concurrency=concurrency,
        nats_url=nats_url,
        ready_fd=ready_fd,
    )
    raise typer.Exit(code)


def main() -> None:
    run(app, "pyoco-worker")


if __name__ == "__main__":
    main()
