"""The reference pages in docs/ agree with the tables in the code."""

import re
from difflib import unified_diff
from importlib import import_module

from pyoco_server.telemetry.logging_config import CONTEXT_FIELDS
from tests.support.places import DOCS, ROOT

LOG_FIELDS = (
    *("ts", "service", "level", "logger", "message", "pathname", "lineno", "func"),
    *("exc_type", "exc_message", "exc_traceback", "exc_origin"),
    *CONTEXT_FIELDS,
)


def test_generated_files_are_up_to_date() -> None:
    # Imported here, and not by each process that collects the tests: it takes a second.
    pages, render = import_module("tools.docs.pages"), import_module("tools.docs.render")
    generated = {DOCS / name: blocks for name, blocks in pages.PAGES.items()}
    expected = {path: render.render_page(path, blocks()) for path, blocks in generated.items()}
    expected |= {ROOT / name: content() for name, content in pages.FILES.items()}
    for path, text in expected.items():
        written = path.read_text(encoding="utf-8").splitlines()
        difference = "\n".join(
            unified_diff(written, text.splitlines(), "written", "generated", n=0, lineterm="")
        )
        assert not difference, f"{path} differs from the code. Run `make docs`.\n{difference}"


def test_documented_log_fields() -> None:
    page = (DOCS / "logging.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE) == list(LOG_FIELDS)
