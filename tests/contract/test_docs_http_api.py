"""docs/http-api.md has every endpoint of the OpenAPI document, with its errors."""

import re
from typing import Any

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api import create_app
from pyoco_server.records.models import Reason, RunStatus, TaskStatus
from tests.support.places import DOCS

PAGE = (DOCS / "http-api.md").read_text()


# What every endpoint that asks for an API key may answer is told in a section of its own.
TOLD_ONCE = {"401", "403", "429"}


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    document = create_app(NatsBackendConfig(load_dotenv=False)).openapi()
    return [
        (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


@pytest.mark.parametrize(("method", "path", "operation"), operations())
def test_an_endpoint_has_its_section_with_its_errors(
    method: str, path: str, operation: dict[str, Any]
) -> None:
    heading = f"## `{method} {path}`\n"
    assert heading in PAGE
    section = PAGE.partition(heading)[2].partition("\n## ")[0]
    documented = set(re.findall(r"(\d{3}) ERR-PYOCO", section))
    assert documented == {status for status in operation["responses"] if status >= "400"} - TOLD_ONCE


def test_what_is_told_once_is_told() -> None:
    section = PAGE.partition("## Authentication\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"(\d{3}) ERR-PYOCO", section)) >= TOLD_ONCE


def test_the_page_has_no_endpoint_that_does_not_exist() -> None:
    told = set(re.findall(r"^## `(\w+) (\S+)`$", PAGE, re.MULTILINE))
    assert told == {(method, path) for method, path, _ in operations()}


@pytest.mark.parametrize("word", [*RunStatus, *TaskStatus, *Reason])
def test_every_status_and_reason_is_told(word: str) -> None:
    assert f"`{word}`" in PAGE
