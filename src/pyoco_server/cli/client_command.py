"""`pyoco-client`: the table of its commands. Each is imported when it is called."""

import typer

from pyoco_server.cli.entry import Version, run
from pyoco_server.cli.lazy_group import Command, CommandGroup, new_lazy_app
from pyoco_server.cli.options.shared_options import ApiKey, GatewayAddress, Server


def _flows(function: str) -> str:
    return f"workers.flows_command:{function}"


def _schedules(function: str) -> str:
    return f"schedules.schedules_command:{function}"


def _events(function: str) -> str:
    return f"triggers.events_command:{function}"


def _templates(function: str) -> str:
    return f"triggers.templates_command:{function}"


def _requests(function: str) -> str:
    return f"agent.requests_command:{function}"


def _views(function: str) -> str:
    return f"runs.views_command:{function}"


def _hooks(function: str) -> str:
    return f"triggers.hooks_command:{function}"


def _alerts(function: str) -> str:
    return f"monitoring.alerts_command:{function}"


COMMANDS: dict[str, Command | CommandGroup] = {
    "submit": Command("Submit a run of a flow that the workers have loaded.", "runs.submit_command:submit"),
    "submit-yaml": Command(
        "Submit a flow.yaml as a run; its params are the file's own defaults.",
        "runs.submit_command:submit_yaml",
    ),
    "list": Command(
        "List matching runs, last changed first; with --all, last submitted first.",
        "runs.list_command:list_runs",
    ),
    "list-vnext": Command(
        "List a page of matching runs, with the cursor of the next page.", "runs.list_command:list_vnext"
    ),
    "views": CommandGroup(
        "Save, show and delete views: named filters and orders of the list of runs, which a team shares.",
        (
            'pyoco-client views save "Failed tonight" --status FAILED --flow nightly --since 24h',
            'pyoco-client list --view "Failed tonight"',
        ),
        {
            "list": Command("List the saved views.", _views("list_views")),
            "show": Command("Show a saved view.", _views("show_view")),
            "save": Command("Create a view, or replace the one of this name.", _views("save")),
            "delete": Command("Delete a view.", _views("delete")),
        },
    ),
    "get": Command(
        "Show the latest snapshot of a run and, if it has not ended, why.", "runs.run_commands:get"
    ),
    "watch": Command(
        "Watch a run until it ends; exit 0 only if it is COMPLETED.", "runs.watch_command:watch"
    ),
    "tasks": Command("Show the tasks of a run: their states, results and errors.", "runs.run_commands:tasks"),
    "result": Command(
        "Print what a completed run returned, or one of its tasks; JSON, or bytes as they are.",
        "runs.run_commands:result",
    ),
    "logs": Command("Show the output of a run.", "runs.logs_command:logs"),
    "artifacts": CommandGroup(
        "List and download the files of a run.",
        (
            "pyoco-client artifacts list $RUN_ID",
            "pyoco-client artifacts get $RUN_ID report.csv",
        ),
        {
            "list": Command(
                "List the files of a run, and those that were left out.",
                "runs.artifacts_command:list_artifacts",
            ),
            "get": Command("Download one file of a run, or all of them.", "runs.artifacts_command:get"),
        },
    ),
    "explain": Command(
        "Explain the state of a run, what happens next, and what you can do.", "runs.run_commands:explain"
    ),
    "compare": Command(
        "Compare two runs: params, durations, results and versions.", "runs.compare_command:compare"
    ),
    "cancel": Command("Cancel a run. A run that has ended is left unchanged.", "runs.run_commands:cancel"),
    "rerun": Command(
        "Rerun an ended run as a new run, with the same or other params.", "runs.run_commands:rerun"
    ),
    "waits": Command(
        "List open or past waits, or show one wait with its history.", "waits.waits_command:waits"
    ),
    "resume": Command(
        "Answer the question a run is waiting on. Without --json or --decision, prompts interactively.",
        "waits.resume_command:resume",
    ),
    "wait-withdraw": Command(
        "Close an open question without an answer; its run fails and can be retried.",
        "waits.wait_change_commands:wait_withdraw",
    ),
    "wait-extend": Command(
        "Move the deadline of an open question to a later time.", "waits.wait_change_commands:wait_extend"
    ),
    "wait-reassign": Command(
        "Change who may answer an open question.", "waits.wait_change_commands:wait_reassign"
    ),
    "retry": Command(
        "Ask an expired or withdrawn question again; finished tasks are not executed again.",
        "runs.run_commands:retry",
    ),
    "signal": Command(
        "Send a signal to a run; its next wait for a signal of that name receives it.",
        "waits.signal_commands:signal",
    ),
    "signals": Command("List the signals that were sent to a run.", "waits.signal_commands:signals"),
    "event": Command("Send an event to all runs that wait for it.", "waits.signal_commands:event"),
    "workers": Command(
        "List workers with their states, slots, tags and runs.", "workers.workers_command:workers"
    ),
    "worker": Command(
        "Show one worker, after pausing, resuming, draining, hiding or unhiding it if requested.",
        "workers.workers_command:worker",
    ),
    "stats": Command(
        "Show throughput, success rate, durations and queue times of a period, and of the one before.",
        "monitoring.stats_command:stats",
    ),
    "health": Command(
        "Show whether the gateway, NATS and the index are ready; exit 0 only if they are.",
        "health_command:health",
    ),
    "mcp": Command(
        "Serve the tools for agents (Model Context Protocol) on standard input and output.",
        "mcp_command:mcp",
    ),
    "metrics": Command("Show the gateway's metrics in Prometheus format.", "workers.workers_command:metrics"),
    "wheels": Command("List the wheels that workers install.", "workers.wheels_command:wheels"),
    "wheel-history": Command(
        "List uploads and deletions of wheels, newest first.", "workers.wheels_command:wheel_history"
    ),
    "wheel-upload": Command(
        "Upload a wheel; its version must be newer than every registered one of the package.",
        "workers.wheels_command:wheel_upload",
    ),
    "wheel-delete": Command(
        "Delete a wheel; workers uninstall it before their next run.", "workers.wheels_command:wheel_delete"
    ),
    "flows": CommandGroup(
        "List the flows of the workers, show what one takes, and run it.",
        ("pyoco-client flows list", "pyoco-client flows run greet --param name=Ada --wait"),
        {
            "list": Command("List flows with their workers and runs of the last day.", _flows("list_flows")),
            "get": Command("Show a flow: its parameters, tasks, workers and statistics.", _flows("get")),
            "run": Command("Submit a run of a flow, after checking its name and params.", _flows("run")),
        },
    ),
    "schedules": CommandGroup(
        "Create, inspect, pause, trigger and backfill schedules, or apply a file of them.",
        (
            'pyoco-client schedules create nightly --flow-name etl --cron "0 2 * * *" --timezone Asia/Tokyo',
            "pyoco-client schedules apply -f schedules.yaml --dry-run",
        ),
        {
            "list": Command(
                "List matching schedules with their next and last runs.", _schedules("list_schedules")
            ),
            "get": Command("Show a schedule, its next times and its last decisions.", _schedules("get")),
            "create": Command("Create a schedule.", _schedules("create")),
            "update": Command("Change some fields of a schedule.", _schedules("update")),
            "delete": Command("Delete a schedule. Its runs stay.", _schedules("delete")),
            "pause": Command("Pause a schedule until it is resumed.", _schedules("pause")),
            "resume": Command(
                "Resume a schedule; what was due meanwhile is not started.", _schedules("resume")
            ),
            "trigger": Command("Start a run of a schedule now.", _schedules("trigger")),
            "backfill": Command(
                "Start the runs of a past period, one after the other.", _schedules("backfill")
            ),
            "backfills": Command(
                "List the backfills of a schedule that are in progress.", _schedules("backfills")
            ),
            "cancel-backfill": Command(
                "Cancel a backfill. The runs that it has started stay.", _schedules("cancel_backfill")
            ),
            "next": Command("Show the next times of a schedule.", _schedules("next_times")),
            "apply": Command(
                "Create and change schedules as in a file; with --prune, delete the others.",
                _schedules("apply"),
            ),
        },
    ),
    "events": CommandGroup(
        "Send workflow events, which start runs (`event` is for runs that wait), and see their month "
        "summary, retry queue and notifications.",
        (
            "pyoco-client events send --template monthly-close --key close-2026-11 --year 2026 --month 11",
            "pyoco-client events summary --month 2026-11",
        ),
        {
            "send": Command("Send a workflow event; a repeated key starts nothing.", _events("send")),
            "summary": Command("Count the events of a month by status and reason.", _events("summary")),
            "recent": Command("List the newest events of a month.", _events("recent")),
            "retry-jobs": Command("List the events that the server sends again.", _events("retry_jobs")),
            "drain": Command("Execute the retry jobs that are due now.", _events("drain")),
            "notification": Command(
                "Show whether escalations go to Google Chat; the webhook is masked.", _events("notification")
            ),
            "notification-set": Command(
                "Store or clear the Google Chat webhook.", _events("notification_set")
            ),
            "notification-test": Command("Send a test message to Google Chat.", _events("notification_test")),
        },
    ),
    "templates": CommandGroup(
        "Create, inspect, test and delete workflow templates, which events start.",
        (
            'pyoco-client templates create monthly-close --name "Monthly close" --action close_month',
            """pyoco-client templates test monthly-close --json '{"year": 2026, "month": 11}'""",
        ),
        {
            "list": Command("List matching templates.", _templates("list_templates")),
            "get": Command("Show a template.", _templates("get")),
            "create": Command("Create a template.", _templates("create")),
            "update": Command("Change some fields of a template.", _templates("update")),
            "delete": Command("Delete a template. Its runs stay.", _templates("delete")),
            "test": Command(
                "Show the run that an event would start, and start nothing.", _templates("preview")
            ),
        },
    ),
    "actions": CommandGroup(
        "Bind the actions of workflow templates to flows.",
        ("pyoco-client actions create close_month --flow-name close --tag finance",),
        {
            "list": Command("List the actions with their flows.", "triggers.actions_command:list_actions"),
            "get": Command("Show an action.", "triggers.actions_command:get"),
            "create": Command(
                "Create an action, or replace the one with this key.", "triggers.actions_command:create"
            ),
            "delete": Command("Delete an action.", "triggers.actions_command:delete"),
        },
    ),
    "hooks": CommandGroup(
        "Create, inspect, test and rotate hooks, whose deliveries start runs.",
        (
            "pyoco-client hooks create orders --kind github --flow-name import --map order=/order/id",
            "pyoco-client hooks deliveries orders",
        ),
        {
            "list": Command("List matching hooks.", _hooks("list_hooks")),
            "get": Command("Show a hook, without its secrets.", _hooks("get")),
            "create": Command("Create a hook and show its secret, once.", _hooks("create")),
            "update": Command("Change some fields of a hook.", _hooks("update")),
            "delete": Command("Delete a hook and its kept deliveries. Its runs stay.", _hooks("delete")),
            "rotate": Command("Give a hook a new secret, or end the old one.", _hooks("rotate")),
            "test": Command(
                "Show the run that a delivery would start, and start nothing.", _hooks("preview")
            ),
            "deliveries": Command(
                "List the kept deliveries of a hook, or show one of them.", _hooks("deliveries")
            ),
            "redeliver": Command("Process a kept delivery again.", _hooks("redeliver")),
        },
    ),
    "alerts": CommandGroup(
        "Report failed runs, long queues and missing workers to a webhook, Slack, Google Chat or mail.",
        (
            "pyoco-client alerts apply -f alerts.yaml",
            "pyoco-client alerts test orders-failing",
        ),
        {
            "list": Command("List alerts with their states.", _alerts("list_alerts")),
            "show": Command("Show an alert, without its secrets.", _alerts("show_alert")),
            "apply": Command("Create and replace alerts as in a file.", _alerts("apply")),
            "test": Command(
                "Send a test message now; exit 0 only if every channel took it.", _alerts("send_test")
            ),
            "mute": Command("Send no messages for a while, or until it is unmuted.", _alerts("mute")),
            "unmute": Command("Send messages again.", _alerts("unmute")),
            "delete": Command("Delete an alert and its history.", _alerts("delete")),
            "history": Command(
                "List when an alert has fired and was resolved, and what became of its messages.",
                _alerts("history"),
            ),
        },
    ),
    "requests": CommandGroup(
        "Create, execute, answer and follow agent requests (a gateway of `pyoco-server agent`).",
        (
            'pyoco-client requests create "Session timeout" --want "End it after 30 minutes." --enqueue',
            "pyoco-client requests logs 20261117-session-timeout --follow",
        ),
        {
            "list": Command("List the requests of the repository.", _requests("list_requests")),
            "create": Command("Create a request; with --enqueue, execute it.", _requests("create")),
            "show": Command("Show a request with its want, plan and report.", _requests("show_request")),
            "update": Command(
                "Change the title, priority, labels or want of a request.", _requests("update")
            ),
            "delete": Command("Delete a request; the files of its runs stay.", _requests("delete")),
            "enqueue": Command("Have a request executed when it is its turn.", _requests("enqueue")),
            "stop": Command(
                "Stop the run of a request, or take it out of the queue; its work is saved.",
                _requests("stop"),
            ),
            "resume": Command("Answer the question of a request, which continues then.", _requests("resume")),
            "rerun": Command("Execute a failed or finished request again.", _requests("rerun")),
            "logs": Command("Show or follow the log of a run, or another file of it.", _requests("logs")),
            "doctor": Command(
                "Check what an agent needs; exit 0 only if everything is there.", _requests("doctor")
            ),
        },
    ),
    "dlq": CommandGroup(
        "List, replay and delete dead letters (runs and jobs that failed).",
        ("pyoco-client dlq list --reason execution_error --since 24h", "pyoco-client dlq replay --seq 41"),
        {
            "list": Command("List matching dead letters, newest first.", "runs.dlq_command:list_letters"),
            "get": Command("Show one dead letter.", "runs.dlq_command:get"),
            "replay": Command(
                "Replay one dead letter, or all that match, as new runs.", "runs.dlq_command:replay"
            ),
            "delete": Command(
                "Delete one dead letter, or all that match. Their runs stay.", "runs.dlq_command:delete"
            ),
        },
    ),
    "audit": Command(
        "List who did what: cancelled, reran, paused, answered, uploaded; newest first.",
        "monitoring.audit_command:audit",
    ),
    "bulk": CommandGroup(
        "Cancel or rerun all matching runs, and track the progress.",
        (
            "pyoco-client bulk cancel --flow nightly --status RUNNING --dry-run",
            "pyoco-client bulk rerun --status FAILED --updated-after 24h --from failed --yes",
        ),
        {
            "cancel": Command(
                "Cancel all matching runs; ended runs are left unchanged.", "runs.bulk_command:cancel"
            ),
            "rerun": Command(
                "Rerun all matching runs that have ended, as new runs.", "runs.bulk_command:rerun"
            ),
            "list": Command("List the latest bulk operations.", "runs.bulk_command:list_operations"),
            "get": Command("Show the progress of a bulk operation.", "runs.bulk_command:get"),
            "stop": Command(
                "Stop a bulk operation; changes already made are kept.", "runs.bulk_command:stop"
            ),
        },
    ),
}

app = new_lazy_app(
    COMMANDS,
    "pyoco_server.cli.commands",
    add_completion=True,
    help="Submit, inspect, cancel and rerun runs on a pyoco-server gateway.",
    examples=(
        "pyoco-client submit --flow-name greet --param name=Ada --wait",
        "pyoco-client list --status FAILED --updated-after 24h",
        "pyoco-client watch $RUN_ID",
    ),
)


@app.callback()
def client(
    ctx: typer.Context, server: Server = None, api_key: ApiKey = None, version: Version = False
) -> None:
    ctx.obj = GatewayAddress(server, api_key)


def main() -> None:
    run(app, "pyoco-client")


if __name__ == "__main__":
    main()
