"""The generated pages: for each, a function that returns its blocks by name."""

import json
import re
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

from typer.main import get_command

from pyoco_server import admin_cli
from pyoco_server.agent.agent_errors import status_of
from pyoco_server.agent.agent_settings import SETTINGS as AGENT_SETTINGS
from pyoco_server.api.endpoints.endpoint import Endpoint
from pyoco_server.api.endpoints.endpoint_table import ENDPOINTS
from pyoco_server.cli import client_command, worker_command
from pyoco_server.cli.lazy_group import examples_in
from pyoco_server.cli.server import server_command
from pyoco_server.config import SETTINGS, NatsBackendConfig, Setting
from pyoco_server.errors import PyocoError
from pyoco_server.errors.error_table import ERRORS
from pyoco_server.http_api import openapi
from pyoco_server.http_api.metrics.metric_table import METRICS
from pyoco_server.mcp_tools.tool_table import TOOLS
from tools.docs.client_types import render_client_endpoints, render_client_types
from tools.docs.render import table


def settings_page() -> dict[str, str]:
    """docs/settings.md: a table for each group of settings."""
    header = ("Variable", "Default", "Value", "What it does")

    def row(setting: Setting) -> tuple[str, ...]:
        default = "*not set*" if setting.default == "" else f"`{setting.shown_default}`"
        return (f"`{setting.name}`", default, setting.expected, setting.help)

    groups = groupby(SETTINGS, key=lambda setting: setting.group)
    return {
        "settings": "\n\n".join(
            f"## {group}\n\n{table(header, map(row, settings))}" for group, settings in groups
        )
    }


def agent_settings_page() -> dict[str, str]:
    """docs/agent-settings.md: the keys of .aiflowrc.json."""
    header = ("Key", "Variable", "Default", "What it does")
    rows = (
        (
            f"`{setting.key}`",
            f"`{setting.variable}`" if setting.variable else "",
            f"`{json.dumps(setting.default)}`",
            setting.help,
        )
        for setting in AGENT_SETTINGS
    )
    return {"agent-settings": table(header, rows)}


def errors_page() -> dict[str, str]:
    """docs/errors.md: the error table, and the tree of exceptions."""
    header = ("Id", "HTTP", "Text (en)", "Text (ja)", "What you can do", "対処")
    rows = ((f"`{e.err_id}`", e.status, e.en, e.ja, e.cure_en, e.cure_ja) for e in ERRORS)
    tree = "\n".join(["PyocoError", *_subclass_lines(PyocoError)])
    return {"errors": table(header, rows), "exceptions": f"```\n{tree}\n```"}


def _subclass_lines(parent: type[PyocoError], indent: str = "") -> list[str]:
    lines = []
    children = [child for child in parent.__subclasses__() if child.__module__ == PyocoError.__module__]
    for child in children:
        is_last = child is children[-1]
        name = f"{indent}{'└' if is_last else '├'}── {child.__name__}"
        # A subclass that shares the id of its parent is listed below it without one.
        lines.append(name if parent is not PyocoError else f"{name:<28}{child.error.err_id}")
        lines += _subclass_lines(child, indent + ("    " if is_last else "│   "))
    return lines


def metrics_page() -> dict[str, str]:
    """docs/metrics.md: the table of metrics."""
    header = ("metric", "kind", "unit", "labels", "of", "")
    rows = (
        (f"`{m.name}`", m.kind, m.unit, ", ".join(f"`{label}`" for label in m.labels), m.of, m.help)
        for m in METRICS
    )
    return {"metrics": table(header, rows)}


def mcp_page() -> dict[str, str]:
    """docs/mcp.md: the table of tools."""
    header = ("Tool", "Endpoint", "Scope", "What it does")
    rows = (
        (
            f"`{tool.name}`",
            f"`{tool.endpoint.method} {tool.endpoint.path}`",
            " or ".join(f"`{scope}`" for scope in tool.endpoint.scope_names),
            tool.description,
        )
        for tool in TOOLS.values()
    )
    return {"tools": table(header, rows)}


def commands_page() -> dict[str, str]:
    """docs/commands.md: help, options and examples of each command."""
    return {name: _command_block(command) for name, command in all_commands()}


def all_commands() -> Iterator[tuple[str, Any]]:
    """Every command by its full name: `pyoco-client`, `pyoco-client dlq`, `pyoco-client dlq list`."""
    programs = {
        "pyoco-server": server_command.app,
        "pyoco-worker": worker_command.app,
        "pyoco-client": client_command.app,
        "pyoco-server-admin": admin_cli.app,
    }
    for program, app in programs.items():
        yield from _with_subcommands(program, get_command(app))


def _with_subcommands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield name, command
    for word, subcommand in getattr(command, "commands", {}).items():
        yield from _with_subcommands(f"{name} {word}", subcommand)


def _command_block(command: Any) -> str:
    options = [_option_row(option) for option in command.params if option.name != "help"]
    examples = "\n".join(["```sh", *examples_in(command.epilog), "```"])
    tables = [table(("Option", "Default", "Description"), options)] if options else []
    return "\n\n".join([command.help, *tables, examples])


def _option_row(option: Any) -> tuple[str, str, str]:
    if option.param_type_name == "argument":
        return f"`{option.metavar}`", "", option.help
    value = f" {option.metavar}" if option.metavar else ""
    default = "*required*" if option.required else f"`{option.default}`" if option.default else ""
    return f"`{option.opts[0]}{value}`", default, option.help


def http_api_page() -> dict[str, str]:
    """docs/http-api.md: the table of endpoints, each with a link to its section."""
    header = ("endpoint", "scope", "what it does", "errors")

    def row(endpoint: Endpoint) -> tuple[str, ...]:
        name = endpoint.route
        anchor = re.sub(r"[^\w -]", "", name.lower()).replace(" ", "-")
        scopes = " or ".join(f"`{scope}`" for scope in endpoint.scope_names) or "*public*"
        errors = sorted((error.status or 500, error.err_id) for error in endpoint.errors)
        errors += sorted((status_of(code), str(code)) for code in endpoint.codes)
        return (
            f"[`{name}`](#{anchor})",
            scopes,
            endpoint.summary.removesuffix("."),
            ", ".join(f"{status} {err_id}" for status, err_id in errors),
        )

    return {"endpoints": table(header, (row(each) for each in ENDPOINTS if each.in_schema))}


def openapi_document() -> str:
    """ui/openapi.json, from which the dashboard's types are made."""
    document = openapi.openapi_document(NatsBackendConfig(load_dotenv=False))
    # Another version of the package is no other API.
    document["info"]["version"] = ""
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


# Files that are generated as a whole.
FILES: dict[str, Callable[[], str]] = {
    "src/pyoco_server/http_client/client_endpoints.py": render_client_endpoints,
    "src/pyoco_server/http_client/response_types.py": render_client_types,
    "ui/openapi.json": openapi_document,
}

# To generate a further page, add its file in docs/ and a function here, and markers (render.py) to the file.
PAGES: dict[str, Callable[[], dict[str, str]]] = {
    "settings.md": settings_page,
    "agent-settings.md": agent_settings_page,
    "errors.md": errors_page,
    "metrics.md": metrics_page,
    "mcp.md": mcp_page,
    "commands.md": commands_page,
    "http-api.md": http_api_page,
}
