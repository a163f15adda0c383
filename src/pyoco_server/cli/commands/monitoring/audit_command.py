"""`pyoco-client audit`: who did what."""

from typing import Annotated

from pyoco_server.cli.options.client_options import (
    AllPages,
    Limit,
    OutputOption,
    client_command,
    listed,
)
from pyoco_server.cli.options.filter_options import audit_filter
from pyoco_server.cli.options.shared_options import flag
from pyoco_server.cli.views.audit_views import audit_view
from pyoco_server.cli.views.console import OutputFormat, show
from pyoco_server.http_client import AuditFilter, PyocoHttpClient


@client_command(
    "pyoco-client audit --since 2h",
    "pyoco-client audit --run $RUN_ID",
    "pyoco-client audit --actor ci --action run.cancel --all --json",
    filters=audit_filter,
)
def audit(
    client: PyocoHttpClient,
    *,
    filters: AuditFilter,
    limit: Limit = None,
    all_pages: AllPages = False,
    as_json: Annotated[bool, flag("--json", "Same as --output json.")] = False,
    output: OutputOption = None,
) -> None:
    entries = listed(lambda size: client.iter_audit(size, **filters), limit, all_pages)
    show(entries, OutputFormat.JSON if as_json else output, audit_view)
