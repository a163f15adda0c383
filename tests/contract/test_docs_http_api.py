"""docs/http-api.md has a section for every endpoint; its table is generated."""

import re

from pyoco_server.api.endpoints.endpoint_table import ENDPOINTS
from pyoco_server.records.runs.run_models import Reason, RunStatus, TaskStatus
from tests.support.places import DOCS

PAGE = (DOCS / "http-api.md").read_text(encoding="utf-8")


def test_each_endpoint_has_a_section_and_each_section_its_endpoint() -> None:
    sections = re.findall(r"^## `(\w+ \S+)`$", PAGE, re.MULTILINE)
    assert sorted(sections) == sorted(each.route for each in ENDPOINTS if each.in_schema)


def test_the_errors_of_every_endpoint_are_described() -> None:
    section = PAGE.partition("## Authentication\n")[2].partition("\n## ")[0]
    assert {"401", "403", "429"} <= set(re.findall(r"(\d{3}) ERR-PYOCO", section))


def test_every_status_and_reason_is_described() -> None:
    assert [word for word in (*RunStatus, *TaskStatus, *Reason) if f"`{word}`" not in PAGE] == []
