"""`pyoco-client stats`."""

from enum import StrEnum
from typing import Annotated

from pyoco_server.cli.commands.workers.flow_completion import complete_flow
from pyoco_server.cli.options.client_options import OutputOption, client_command
from pyoco_server.cli.options.shared_options import option, text_option
from pyoco_server.cli.views.console import show
from pyoco_server.cli.views.statistics_views import statistics_view
from pyoco_server.http_client import PyocoHttpClient


class Period(StrEnum):
    HOUR = "1h"
    DAY = "24h"
    WEEK = "7d"
    MONTH = "30d"


@client_command(
    "pyoco-client stats", "pyoco-client stats --period 7d --flow nightly", "pyoco-client stats --tag gpu"
)
def stats(
    client: PyocoHttpClient,
    *,
    period: Annotated[
        Period, option("1h, 24h, 7d or 30d until now, compared with the period before.", "PERIOD")
    ] = Period.DAY,
    flow: Annotated[
        str | None, text_option("Only runs of this flow.", "FLOW", autocompletion=complete_flow)
    ] = None,
    tag: Annotated[str | None, text_option("Only runs for workers of this tag.", "TAG")] = None,
    output: OutputOption = None,
) -> None:
    show(client.statistics(period.value, flow=flow, tag=tag), output, statistics_view)
