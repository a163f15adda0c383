"""Invalid submits, as JSON and as a form: each names the field; nothing is stored, since there is no NATS."""

from typing import Any

import httpx
import pytest

from tests.support.problems import assert_field_problem, assert_problem
from tests.support.samples.flow_yaml import VALID_FLOW_YAML

FORM_TYPE = {"content-type": "multipart/form-data; boundary=x"}
FILE = {"workflow": ("flow.yaml", VALID_FLOW_YAML)}


@pytest.mark.parametrize(
    ("body", "field", "says"),
    [
        ({}, "flow_name", "missing"),
        ({"flow_name": 5}, "flow_name", "str"),
        ({"flow_name": ""}, "flow_name", "expected"),
        ({"flow_name": "a\nb"}, "flow_name", "expected"),
        ({"flow_name": "x" * 201}, "flow_name", "expected"),
        ({"flow_name": "f", "params": [1]}, "params", "object"),
        ({"flow_name": "f", "tag": "has.dot"}, "tag", "expected"),
        ({"flow_name": "f", "tag": "*"}, "tag", "expected"),
        ({"flow_name": "f", "tag": "f\n"}, "tag", "expected"),
        ({"flow_name": "f", "tags": "one"}, "tags", "array"),
        ({"flow_name": "f", "tags": [1]}, "tags[0]", "str"),
        ({"flow_name": "f", "tags": [""]}, "tags[0]", "length"),
        ({"flow_name": "f", "parms": {}}, "parms", "unknown"),
        ([], "", "object"),
    ],
)
async def test_an_invalid_submit_names_the_field(
    http: httpx.AsyncClient, body: object, field: str, says: str
) -> None:
    response = await http.post("/runs", json=body)
    assert_field_problem(response, field, says)
    assert says in response.json()["detail"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b'{"flow_name": "\xff"}',
        b'{"flow_name": "f", "params": ' + b"[" * 100_000,
        b'{"flow_name": "f", "params": {"deep": ' + b"[" * 500 + b"]" * 500 + b"}}",
        b'{"flow_name": "f", "params": {"deep": ' + b"[" * 963 + b"]" * 963 + b"}}",
    ],
    ids=["empty", "cut off", "UTF-16", "not UTF-8", "endless nesting", "500 deep", "963 deep"],
)
async def test_a_body_that_is_not_json_is_rejected(http: httpx.AsyncClient, body: bytes) -> None:
    assert_problem(await http.post("/runs", content=body), 422, 2)


async def test_an_invalid_flow_yaml_is_rejected_at_the_line(http: httpx.AsyncClient) -> None:
    """tests/unit/flow_yaml has the cases."""
    files = {"workflow": ("flow.yaml", VALID_FLOW_YAML.replace("graph: load", "graph: laod"))}
    response = await http.post("/runs/yaml", files=files, data={"flow_name": "f"})
    error = assert_field_problem(response, "flow.graph", "laod")
    assert (error["line"], error["column"]) == (3, 10)


@pytest.mark.parametrize(
    ("form", "says"),
    [
        ({"files": FILE}, "flow_name"),
        ({"data": {"flow_name": "f"}, "files": {"wrong": ("flow.yaml", b"")}}, "wrong"),
        ({"data": {"flow_name": "f", "workflow": "text"}, "files": {"x": ("", b"")}}, "workflow"),
        ({"data": {"flow_name": "f", "tag": "a.b"}, "files": FILE}, "tag"),
        ({"data": {"flow_name": "f", "params": "{}"}, "files": FILE}, "params"),
        ({"json": {"flow_name": "f"}}, "multipart/form-data"),
        ({"content": b"junk", "headers": {"content-type": "multipart/form-data"}}, "multipart"),
        ({"content": b"junk", "headers": FORM_TYPE}, ""),
    ],
)
async def test_a_form_that_lacks_something_names_it(
    http: httpx.AsyncClient, form: dict[str, Any], says: str
) -> None:
    assert says in assert_problem(await http.post("/runs/yaml", **form), 422, 2)["detail"]


async def test_a_form_field_in_a_charset_that_yields_no_unicode_is_rejected(http: httpx.AsyncClient) -> None:
    part = b'--x\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n'
    body = (
        part % (b"workflow", b'; filename="f"', VALID_FLOW_YAML.encode())
        + part % (b"flow_name", b"", b"\\ud800")
        + b"--x--\r\n"
    )
    headers = {"content-type": f"{FORM_TYPE['content-type']}; charset=unicode_escape"}
    response = await http.post("/runs/yaml", content=body, headers=headers)
    assert_field_problem(response, "flow_name", "Unicode")
