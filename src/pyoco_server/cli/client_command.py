"""`pyoco-client`: everything that a person asks of a gateway. Each command is in the file of its name."""

import typer

from pyoco_server.cli.commands import bulk_command as bulk
from pyoco_server.cli.commands import cancel_command as cancel
from pyoco_server.cli.commands import dlq_command as dlq
from pyoco_server.cli.commands import explain_command as explain
from pyoco_server.cli.commands import get_command as get
from pyoco_server.cli.commands import list_command as list_runs
from pyoco_server.cli.commands import logs_command as logs
from pyoco_server.cli.commands import metrics_command as metrics
from pyoco_server.cli.commands import rerun_command as rerun
from pyoco_server.cli.commands import resume_command as resume
from pyoco_server.cli.commands import retry_command as retry
from pyoco_server.cli.commands import submit_command as submit
from pyoco_server.cli.commands import tasks_command as tasks
from pyoco_server.cli.commands import waits_command as waits
from pyoco_server.cli.commands import watch_command as watch
from pyoco_server.cli.commands import wheels_command as wheels
from pyoco_server.cli.commands import workers_command as workers
from pyoco_server.cli.entry import Version, examples, new_app, run
from pyoco_server.cli.options.client_options import ApiKey, GatewayAddress, Server

app = new_app(
    add_completion=True,
    no_args_is_help=True,
    help="Submit runs to a pyoco-server gateway, look at them, stop and repeat them.",
    epilog=examples(
        "pyoco-client submit --flow-name greet --param name=Ada --wait",
        "pyoco-client list --status FAILED --updated-after 24h",
        "pyoco-client watch --run-id $RUN_ID",
    ),
)


@app.callback()
def client(
    ctx: typer.Context, server: Server = None, api_key: ApiKey = None, version: Version = False
) -> None:
    ctx.obj = GatewayAddress(server, api_key)


app.command(epilog=submit.SUBMIT_EPILOG)(submit.submit)
app.command(epilog=submit.SUBMIT_YAML_EPILOG)(submit.submit_yaml)
app.command("list", epilog=list_runs.LIST_EPILOG)(list_runs.list_runs)
app.command(epilog=list_runs.LIST_VNEXT_EPILOG)(list_runs.list_vnext)
app.command(epilog=get.EPILOG)(get.get)
app.command(epilog=watch.EPILOG)(watch.watch)
app.command(epilog=tasks.EPILOG)(tasks.tasks)
app.command(epilog=logs.EPILOG)(logs.logs)
app.command(epilog=explain.EPILOG)(explain.explain)
app.command(epilog=cancel.EPILOG)(cancel.cancel)
app.command(epilog=rerun.EPILOG)(rerun.rerun)
app.command(epilog=waits.EPILOG)(waits.waits)
app.command(epilog=resume.EPILOG)(resume.resume)
app.command(epilog=retry.EPILOG)(retry.retry)
app.command(epilog=workers.WORKERS_EPILOG)(workers.workers)
app.command(epilog=workers.WORKER_EPILOG)(workers.worker)
app.command(epilog=metrics.EPILOG)(metrics.metrics)
app.command(epilog=wheels.WHEELS_EPILOG)(wheels.wheels)
app.command(epilog=wheels.HISTORY_EPILOG)(wheels.wheel_history)
app.command(epilog=wheels.UPLOAD_EPILOG)(wheels.wheel_upload)
app.command(epilog=wheels.DELETE_EPILOG)(wheels.wheel_delete)
app.add_typer(dlq.app, name="dlq")
app.add_typer(bulk.app, name="bulk")


def main() -> None:
    run(app, "pyoco-client")


if __name__ == "__main__":
    main()
