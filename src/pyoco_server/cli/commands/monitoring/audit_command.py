"""`pyoco-client audit`: who did what."""

from itertools import islice
from typing import Annotated

from pyoco_server.cli.options.client_options import (
    DEFAULT_LIMIT,
    PAGE_SIZE,
    AllPages,
    Limit,
    OutputForm,
    check_limit_or_all,
    client_command,
)
from pyoco_server.cli.options.filter_options import audit_filter
from pyoco_server.cli.options.shared_options import flag
from pyoco_server.cli.views.audit_views import audit_view
from pyoco_server.cli.views.console import Output, show
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
    output: OutputForm = None,
) -> None:
    check_limit_or_all(limit, all_pages)
    most = None if all_pages else limit or DEFAULT_LIMIT
    entries = islice(client.iter_audit(min(most or PAGE_SIZE, PAGE_SIZE), **filters), most)
    show(list(entries), Output.JSON if as_json else output, audit_view)
