"""Invalid schedules: each names the field, the value and the cure; nothing is stored, as there is no NATS."""

import json
from typing import Any

import httpx
import pytest

from tests.support.offline_gateway import offline_gateway
from tests.support.problems import assert_field_problem, assert_problem

VALID: dict[str, Any] = {"schedule_id": "nightly", "flow_name": "etl", "spec": {"cron": ["0 2 * * *"]}}
YEAR_SEC = 365 * 86_400


def a_spec(**fields: Any) -> dict[str, Any]:
    return {"spec": {"cron": ["0 2 * * *"], **fields}}


# Fields beside those of VALID, or in their place; the field that is named, and words of the message.
INVALID: list[tuple[dict[str, Any], str, str]] = [
    ({"schedule_id": "has.dot"}, "schedule_id", "1 to 64 letters, digits"),
    ({"schedule_id": ""}, "schedule_id", "1 to 64 letters, digits"),
    ({"schedule_id": "x" * 65}, "schedule_id", "1 to 64 letters, digits"),
    ({"flow_name": "a\nb"}, "flow_name", "printable characters"),
    ({"params": [1]}, "params", "object"),
    ({"tag": "*"}, "tag", "1 to 64 letters, digits"),
    ({"tags": [""]}, "tags[0]", "length"),
    ({"timeout_sec": 0}, "timeout_sec", "above 0"),
    ({"workflow_yaml": "version: 1\nflow: {}\n"}, "flow.graph", "is missing"),
    ({"spec": None}, "spec", "object"),
    ({"spec": {}}, "spec", "give cron, every_sec or at"),
    ({"schedul_id": "a"}, "schedul_id", "did you mean 'schedule_id'?"),
    ({"overlaps": "skip"}, "overlaps", "did you mean 'overlap'?"),
    (a_spec(time_zone="UTC"), "spec.time_zone", "did you mean 'timezone'?"),
    (a_spec(cron="0 2 * * *"), "spec.cron", "a list of cron expressions"),
    (a_spec(cron=["61 * * * *"]), "spec.cron[0]", "give a cron expression that occurs"),
    (a_spec(cron=["0 0 30 2 *"]), "spec.cron[0]", "give a cron expression that occurs"),
    (a_spec(cron=["0 2 * * *", "* * *"]), "spec.cron[1]", "five fields"),
    (a_spec(timezone="Asia/Tokio"), "spec.timezone", "did you mean Asia/Tokyo?"),
    (a_spec(timezone=""), "spec.timezone", "IANA time zone"),
    (a_spec(start_at="2030-02-01", end_at="2030-01-01"), "spec.end_at", "after start_at"),
    (a_spec(end_at="2020-01-01"), "spec", "give a later end_at"),
    (a_spec(start_at="tomorrow"), "spec.start_at", "2027-01-31T17:00:00+09:00"),
    (a_spec(jitter_sec=-1), "spec.jitter_sec", "expected 0 to"),
    (a_spec(exclude=["christmas"]), "spec.exclude[0]", "a date such as"),
    (a_spec(exclude=["0-29 * * * *", "30-59 * * * *"]), "spec.exclude", "exclude less"),
    (a_spec(cron=["@daily"] * 11), "spec.cron", "at most 10 entries"),
    (a_spec(exclude=["2030-01-01"] * 51), "spec.exclude", "at most 50 entries"),
    (a_spec(anchor=0), "spec.anchor", "give every_sec as well"),
    ({"spec": {"every_sec": 0}}, "spec.every_sec", "expected 1 to"),
    ({"spec": {"at": ["2020-01-01"]}}, "spec", "give a time in the future"),
    # A window of a year at every second.
    ({"spec": {"every_sec": 1}, "catchup_window_sec": YEAR_SEC}, "catchup_window_sec", "shorten it"),
    ({"catchup_window_sec": -1}, "catchup_window_sec", "expected 0 to"),
    ({"overlap": "sometimes"}, "overlap", "expected one of skip, buffer_one"),
    ({"remaining_runs": -1}, "remaining_runs", "expected a whole number"),
    ({"remaining_runs": 1.5}, "remaining_runs", "expected a whole number without quotes"),
    ({"spec": {"every_sec": "60"}}, "spec.every_sec", "a number of seconds without quotes"),
    (a_spec(at="2030-01-01"), "spec.at", "a list of times"),
    (a_spec(exclude="2030-01-01"), "spec.exclude", "a list of dates or cron expressions"),
    (a_spec(jitter_sec="5"), "spec.jitter_sec", "a number of seconds without quotes"),
    ({"catchup_window_sec": "1h"}, "catchup_window_sec", "a number of seconds without quotes"),
    ({"note": "x" * 1001}, "note", "length"),
]


@pytest.mark.parametrize(("fields", "field", "says"), INVALID, ids=lambda value: str(value)[:60])
async def test_an_invalid_schedule_is_refused(
    http: httpx.AsyncClient, fields: dict[str, Any], field: str, says: str
) -> None:
    response = await http.post("/schedules", json={**VALID, **fields})
    problem = assert_field_problem(response, field, says)
    given: Any = fields
    for step in field.replace("[", ".").replace("]", "").split("."):
        given = given[int(step)] if isinstance(given, list) else (given or {}).get(step)
    if isinstance(given, str | int | float) and "unknown" not in problem["message"]:
        assert problem["value"].startswith(json.dumps(given)[:50])


async def test_a_missing_field_is_named(http: httpx.AsyncClient) -> None:
    for name in VALID:
        body = {each: value for each, value in VALID.items() if each != name}
        assert_field_problem(await http.post("/schedules", json=body), name, "missing")


async def test_a_flow_yaml_that_is_too_large_is_refused() -> None:
    http = offline_gateway(workflow_yaml_max_bytes=1000)
    response = await http.post("/schedules", json={**VALID, "workflow_yaml": "#" * 1001})
    assert_field_problem(response, "workflow_yaml", "at most 1000 bytes", status=413, number=16)


async def test_a_body_that_is_too_large_names_what_may_be_shortened() -> None:
    http = offline_gateway(workflow_yaml_max_bytes=1000, max_run_snapshot_bytes=1024)
    response = await http.post("/schedules", json={**VALID, "note": "x" * 5000})
    assert_field_problem(response, "", "shorten params, workflow_yaml, note")
    response = await http.post("/schedules/nightly/trigger", json={"params": {"text": "x" * 5000}})
    assert_field_problem(response, "", "shorten params")


async def test_params_that_are_too_large_or_deep_are_refused(http: httpx.AsyncClient) -> None:
    small = offline_gateway(max_run_snapshot_bytes=1024)
    response = await small.post("/schedules", json={**VALID, "params": {"text": "x" * 2000}})
    assert_field_problem(response, "params", "PYOCO_MAX_RUN_SNAPSHOT_BYTES")
    deep: Any = 1
    for _ in range(101):
        deep = [deep]
    response = await http.post("/schedules", json={**VALID, "params": {"deep": deep}})
    assert_field_problem(response, "params", "nested")


async def test_a_valid_schedule_needs_nats(http: httpx.AsyncClient) -> None:
    assert_problem(await http.post("/schedules", json=VALID), 503, 3)


@pytest.mark.parametrize(
    ("body", "field", "says"),
    [
        ({}, "", "nothing to change"),
        ({"revision": 1}, "", "nothing to change"),
        ({"schedule_id": "b"}, "schedule_id", "unknown"),
        ({"overlap": "sometimes"}, "overlap", "expected one of skip"),
        ({"spec": {"crons": []}}, "spec.crons", "did you mean 'cron'?"),
        ({"timeout_sec": -1}, "timeout_sec", "above 0"),
        ({"workflow_yaml": "version: 1\nflow: {}\n"}, "flow.graph", "is missing"),
        ({"params": None}, "params", "object"),
    ],
)
async def test_an_invalid_change_is_refused(
    http: httpx.AsyncClient, body: dict[str, Any], field: str, says: str
) -> None:
    assert_field_problem(await http.patch("/schedules/nightly", json=body), field, says)


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("POST", "/schedules/nightly/pause", {"notes": "a"}, "notes"),
        ("POST", "/schedules/nightly/resume", {"note": 1}, "note"),
        ("POST", "/schedules/nightly/trigger", {"parms": {}}, "parms"),
        ("POST", "/schedules/nightly/trigger", {"overlap": "no"}, "overlap"),
        ("POST", "/schedules/nightly/backfill", {"to": 1}, "from"),
        ("GET", "/schedules/nightly/next?n=0", None, "n"),
        ("GET", "/schedules/nightly/next?after=soon", None, "after"),
        ("GET", "/schedules/nightly/next?after=1e300", None, "after"),
        ("POST", "/schedules/preview", {"spec": {"every_sec": 60}, "after": 1e300}, "after"),
        ("POST", "/schedules/preview", {"spec": {"every_sec": 60}, "n": 1001}, "n"),
        ("GET", "/schedules/nightly?revision=1", None, "revision"),
        ("DELETE", "/schedules/nightly?revision=x", None, "revision"),
    ],
)
async def test_other_requests_name_the_field(
    http: httpx.AsyncClient, method: str, path: str, body: dict[str, Any] | None, field: str
) -> None:
    response = await http.request(method, path, json=body)
    assert assert_problem(response, 422, 2)["errors"][0]["field"] == field


async def test_a_list_query_is_checked(http: httpx.AsyncClient) -> None:
    response = await http.get("/schedules", params={"paused": "maybe", "limit": "0", "flows": "a"})
    problem = assert_problem(response, 422, 17)
    assert {error["field"] for error in problem["errors"]} == {"paused", "limit", "flows"}


async def test_a_preview_shows_times_in_the_zone_of_the_spec(http: httpx.AsyncClient) -> None:
    """Without NATS: nothing is stored."""
    spec = {"cron": ["30 2 * * *"], "timezone": "Europe/Berlin"}
    response = await http.post("/schedules/preview", json={"spec": spec, "after": "2027-03-27T12:00", "n": 3})
    assert response.json() == {
        "times": [
            # The clocks go from 02:00 to 03:00.
            "2027-03-28T03:00:00+02:00",
            "2027-03-29T02:30:00+02:00",
            "2027-03-30T02:30:00+02:00",
        ],
        "timezone": "Europe/Berlin",
        "searched_until": None,
    }


async def test_a_preview_says_how_far_it_was_searched(http: httpx.AsyncClient) -> None:
    """One minute in a year, and a search of many years."""
    spec = {"every_sec": 60, "exclude": ["* * * 1-11 *", "* * 1-30 12 *", "* 1-23 * * *", "1-59 * * * *"]}
    response = await http.post("/schedules/preview", json={"spec": spec, "n": 1000})
    found = response.json()
    assert 1 <= len(found["times"]) < 1000
    assert found["searched_until"] > found["times"][-1]


@pytest.mark.parametrize(
    ("fields", "field", "says"), [each for each in INVALID if each[1].startswith("spec")]
)
async def test_a_preview_has_the_same_problems(
    http: httpx.AsyncClient, fields: dict[str, Any], field: str, says: str
) -> None:
    response = await http.post("/schedules/preview", json={"spec": fields["spec"]})
    assert_field_problem(response, field, says)
