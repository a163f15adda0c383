"""What the views of hooks and of workflow events share."""

import json
from collections.abc import Sequence
from typing import Any, Final

from rich.console import RenderableType
from rich.text import Text

from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.console import pairs, printable

OUTCOME_STYLES: Final = {
    **dict.fromkeys(("started", "success", "succeeded"), "green"),
    **dict.fromkeys(("rejected", "refused", "failed", "escalated"), "red"),
    **dict.fromkeys(("pending", "retrying"), "yellow"),
}


def outcome(word: str) -> Text:
    return Text(printable(word), style=OUTCOME_STYLES.get(word, "dim"))


def line_count(text: str) -> str:
    return localized("{count} lines", count=len(text.splitlines()))


def json_line(value: Any) -> str:
    return printable(json.dumps(value, ensure_ascii=False))


def tested_view(problems: Sequence[str], facts: dict[str, str | None], params: Any) -> RenderableType:
    """What a sample would start; nothing was started."""
    rows: list[tuple[str, RenderableType]] = [
        (
            "would start",
            Text(localized("no"), style="red") if problems else Text(localized("a run"), style="green"),
        )
    ]
    rows += [("because", printable(problem)) for problem in problems]
    rows += [(name, printable(value)) for name, value in facts.items() if value is not None]
    rows += [(f"params.{name}", json_line(value)) for name, value in params.items()]
    return pairs(rows)
