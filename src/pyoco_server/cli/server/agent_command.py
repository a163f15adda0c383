"""`pyoco-server agent`: serves the agent requests of one repository, with a worker of its own."""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from pyoco_server.agent.agent_errors import AgentError
from pyoco_server.agent.agent_settings import AgentSettings, load_settings
from pyoco_server.agent.flow.worker_setup import FLOWS_FOLDER, worker_environment
from pyoco_server.agent.git.git_command import Git
from pyoco_server.agent.git.repository import check_folder
from pyoco_server.agent.requests.repository_files import tag_of
from pyoco_server.cli.lazy_group import examples
from pyoco_server.cli.options.shared_options import DashboardLang, option
from pyoco_server.cli.server.dev_command import (
    DevOptions,
    DevScreen,
    DevStack,
    client_command,
    dev_settings,
    program_command,
    running_stack,
)
from pyoco_server.cli.server.listening import DEFAULT_PORT
from pyoco_server.cli.server.serving import StopRequest, serve
from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.console import stdout_console
from pyoco_server.config import NatsBackendConfig, safe_url
from pyoco_server.config.setting import is_loopback
from pyoco_server.errors import InvalidCliArgument, shortened

_PORT_VARIABLE: Final = "AIFLOW_PORT"
_STATE_FOLDER: Final = "server"


@examples(
    "pyoco-server agent --repo ../my-project",
    "pyoco-server agent --repo . --port 8080 --base-branch develop",
    "pyoco-server agent --repo . --nats-url nats://10.0.0.5:4222",
)
def agent(
    *,
    repo: Annotated[Path, option("The Git repository; its top folder.", "DIR")] = Path("."),
    host: Annotated[
        str | None,
        option(
            "Address to listen on; beyond this machine only with API keys (env: AIFLOW_HOST; default: "
            "127.0.0.1).",
            "ADDRESS",
        ),
    ] = None,
    port: Annotated[
        int | None,
        option("Gateway port (env: AIFLOW_PORT; default: 8000, or a free one).", "PORT", min=0, max=65535),
    ] = None,
    nats_url: Annotated[
        str | None, option("An existing NATS server; without it, one is started.", "URL")
    ] = None,
    nats_port: Annotated[
        int | None,
        option(
            "Port of the NATS server that is started (default: 4222, or a free one).",
            "PORT",
            min=0,
            max=65535,
        ),
    ] = None,
    data_dir: Annotated[
        Path | None,
        option(
            "Folder for NATS, index and logs (default: .aiflow/server in the repository).",
            "DIR",
            file_okay=False,
        ),
    ] = None,
    base_branch: Annotated[
        str | None,
        option("Base of requests that name none (env: AIFLOW_BASE_BRANCH; default: main).", "NAME"),
    ] = None,
    requests_dir: Annotated[
        str | None, option("Folder of request files (env: AIFLOW_REQUESTS_DIR; default: requests).", "DIR")
    ] = None,
    runs_dir: Annotated[
        str | None, option("Folder of run files (env: AIFLOW_RUNS_DIR; default: runs).", "DIR")
    ] = None,
    dashboard_lang: DashboardLang = None,
) -> None:
    if nats_url and nats_port is not None:
        raise InvalidCliArgument("--nats-url names an existing server; use either it or --nats-port")
    overrides: dict[str, Any] = {
        "server.host": host,
        "server.port": port,
        "git.baseBranchDefault": base_branch,
        "paths.requestsDir": requests_dir,
        "paths.runsDir": runs_dir,
    }
    settings = load_settings(repo, overrides=overrides)
    _prepare_repository(settings)
    folder = (data_dir or settings.paths.state / _STATE_FOLDER).resolve()
    # One slot: one run at a time works in a repository.
    config = dev_settings(
        folder,
        worker_concurrency=1,
        dashboard_lang=dashboard_lang,
        agent_repo=str(settings.repo),
        agent_tag=tag_of(settings),
    )
    _check_host(settings.host, config)
    is_port_given = port is not None or bool(os.environ.get(_PORT_VARIABLE)) or settings.port != DEFAULT_PORT
    options = DevOptions(
        config=config,
        flows=FLOWS_FOLDER,
        host=settings.host,
        port=settings.port if is_port_given else None,
        nats_port=nats_port,
        nats_url=nats_url,
        log_dir=folder / "logs",
        worker_id=config.agent_tag,
        tags=(config.agent_tag,),
        environ=_environ(settings, config),
        folder=folder,
        with_schedules=False,
    )
    folder.mkdir(parents=True, exist_ok=True)
    screen = DevScreen(stdout_console())
    raise typer.Exit(serve(lambda stop: _serve_agent(options, settings, stop, screen), config))


def _prepare_repository(settings: AgentSettings) -> None:
    try:
        check_folder(Git(settings.repo))
        settings.paths.prepare()
        settings.paths.check_writable()
    except AgentError as error:
        raise InvalidCliArgument(f"--repo {shortened(str(settings.repo))}: {error}") from error


def _check_host(host: str, config: NatsBackendConfig) -> None:
    """Whoever reaches the gateway has coding commands executed here."""
    if config.http_auth_mode == "none" and not is_loopback(host):
        raise InvalidCliArgument(
            f"--host {host}: others could have commands executed in the repository. Require API keys "
            "(PYOCO_HTTP_AUTH_MODE=api_key, PYOCO_AGENT_TENANT), or listen on 127.0.0.1"
        )


def _environ(settings: AgentSettings, config: NatsBackendConfig) -> dict[str, str]:
    """For gateway and worker. They do not run in the repository, whose Python files could be imported."""
    given: Mapping[str, str] = {
        "PYOCO_AGENT_REPO": config.agent_repo,
        "PYOCO_AGENT_TAG": config.agent_tag,
    }
    env_file = Path(config.env_file).resolve()
    if config.load_dotenv and env_file.is_file():
        given = {**given, "PYOCO_ENV_FILE": str(env_file)}
    return {**worker_environment(settings), **given}


async def _serve_agent(
    options: DevOptions, settings: AgentSettings, stop: StopRequest, screen: DevScreen
) -> None:
    async with running_stack(options, stop, screen) as stack:
        if stack is not None:
            screen.show_stack(stack, _rows(stack, settings))
            screen.show_commands(_first_commands(stack, options.config))
            screen.console.print(Text(localized("Press Ctrl-C to stop everything."), style="dim"))
            await stop.event.wait()


def _rows(stack: DevStack, settings: AgentSettings) -> list[tuple[str, str]]:
    return [
        ("Requests", f"{stack.gateway_url}/#/requests"),
        ("Repository", str(settings.repo)),
        ("Files", f"{settings.requests_dir}/, {settings.runs_dir}/"),
    ]


def _first_commands(stack: DevStack, config: NatsBackendConfig) -> list[str]:
    return [
        *([_new_key(stack, config.agent_tenant)] if config.http_auth_mode == "api_key" else []),
        client_command(stack.gateway_url, "requests", "doctor"),
        client_command(stack.gateway_url, "requests", "create", "Say hello", "--want", "Print a greeting."),
    ]


def _new_key(stack: DevStack, tenant: str) -> str:
    arguments = ("api-key", "create", "--tenant", tenant, "--nats-url", safe_url(stack.nats_url))
    return shlex.join([program_command("pyoco-server-admin"), *arguments])
