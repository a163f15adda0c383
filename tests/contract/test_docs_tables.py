"""The reference pages say what the code does: each setting, error and log field is in its table, as it is.

When a test here fails, its message holds the row that the page should have.
"""

import re

import pytest

from pyoco_server.config import SETTINGS, Setting
from pyoco_server.errors.error_table import ERRORS, ErrorSpec
from pyoco_server.telemetry.logging_config import CONTEXT_FIELDS
from tests.support.places import DOCS

LOG_FIELDS = (
    *("ts", "service", "level", "logger", "message", "pathname", "lineno", "func"),
    *("exc_type", "exc_message", "exc_traceback", "exc_origin"),
    *CONTEXT_FIELDS,
)


def page(name: str) -> list[str]:
    return (DOCS / name).read_text(encoding="utf-8").splitlines()


def first_cells(name: str) -> list[str]:
    """The code words that begin the rows of a page's tables."""
    return [found[1] for line in page(name) if (found := re.match(r"\| `([^`]+)` \|", line))]


def setting_row(row: Setting) -> str:
    default = "*not set*" if row.default == "" else f"`{row.shown_default}`"
    return f"| `{row.name}` | {default} | {row.wanted} | {row.help} |"


def error_row(spec: ErrorSpec) -> str:
    status = spec.status or ""
    return f"| `{spec.err_id}` | {status} | {spec.en} | {spec.ja} | {spec.cure_en} | {spec.cure_ja} |"


@pytest.mark.parametrize("row", SETTINGS, ids=lambda row: row.name)
def test_a_setting_is_documented_with_its_real_default(row: Setting) -> None:
    lines = page("settings.md")
    assert setting_row(row) in lines
    section = [line for line in lines[: lines.index(setting_row(row))] if line.startswith("## ")][-1]
    assert section == f"## {row.group}"


def test_no_setting_is_documented_that_does_not_exist() -> None:
    assert first_cells("settings.md") == [row.name for row in SETTINGS]


@pytest.mark.parametrize("spec", ERRORS, ids=lambda spec: spec.err_id)
def test_an_error_is_documented_with_its_texts_and_its_cure(spec: ErrorSpec) -> None:
    assert error_row(spec) in page("errors.md")


def test_no_error_is_documented_that_does_not_exist() -> None:
    assert first_cells("errors.md") == [spec.err_id for spec in ERRORS]


def test_the_log_fields_are_documented_and_no_others() -> None:
    assert first_cells("logging.md") == list(LOG_FIELDS)
