"""The reference pages in docs/ agree with the tables in the code."""

import re
from difflib import unified_diff

import pytest
from tools.docs.pages import FILES, PAGES
from tools.docs.render import render_page

from pyoco_server.telemetry.logging_config import CONTEXT_FIELDS
from tests.support.places import DOCS, ROOT

LOG_FIELDS = (
    *("ts", "service", "level", "logger", "message", "pathname", "lineno", "func"),
    *("exc_type", "exc_message", "exc_traceback", "exc_origin"),
    *CONTEXT_FIELDS,
)


@pytest.mark.parametrize("name", [*PAGES, *FILES])
def test_generated_file_is_up_to_date(name: str) -> None:
    path = DOCS / name if name in PAGES else ROOT / name
    expected = render_page(path, PAGES[name]()) if name in PAGES else FILES[name]()
    written = path.read_text(encoding="utf-8").splitlines()
    difference = "\n".join(
        unified_diff(written, expected.splitlines(), "written", "generated", n=0, lineterm="")
    )
    assert not difference, f"{name} differs from the code. Run `make docs`.\n{difference}"


def test_documented_log_fields() -> None:
    page = (DOCS / "logging.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE) == list(LOG_FIELDS)
