"""schedules.yaml: what it may contain, and every problem of it at once."""

from pathlib import Path

import pytest

from pyoco_server.cli.schedules.schedule_file import read_schedule_file
from pyoco_server.errors import InvalidRequest
from pyoco_server.records.schedule_models import ScheduleSpec

FLOW = "version: 1\nflow: {graph: hello}\ntasks:\n  hello: {callable: 'greetings:hello'}\n"


def written(folder: Path, text: str) -> Path:
    file = folder / "schedules.yaml"
    file.write_text(text)
    return file


def problems(folder: Path, text: str) -> list[str]:
    with pytest.raises(InvalidRequest) as refused:
        read_schedule_file(written(folder, text))
    return [str(problem) for problem in refused.value.problems]


def test_an_entry_has_the_fields_of_the_endpoint(tmp_path: Path) -> None:
    text = """
schedules:
  - schedule_id: nightly
    flow_name: etl
    params: {region: eu}
    spec: {cron: ["0  2 * * *"], timezone: Asia/Tokyo}
    overlap: buffer_one
  - {schedule_id: poll, flow_name: poll, spec: {every_sec: 30}}
"""
    nightly, poll = read_schedule_file(written(tmp_path, text)).schedules
    assert nightly.spec == ScheduleSpec(cron=["0 2 * * *"], timezone="Asia/Tokyo")
    assert nightly.body["params"] == {"region": "eu"}
    assert nightly.body["overlap"] == "buffer_one"
    assert poll.body == {
        "schedule_id": "poll",
        "flow_name": "poll",
        "spec": {**nightly.body["spec"], "cron": [], "every_sec": 30.0, "timezone": "UTC"},
    }


def test_single_values_and_dates_need_no_list_and_no_quotes(tmp_path: Path) -> None:
    text = """
schedules:
  - schedule_id: nightly
    flow_name: etl
    spec:
      cron: "@daily"
      at: 2030-01-31T09:00:00
      end_at: 2031-01-01
      exclude: 2030-12-24
      timezone: Asia/Tokyo
"""
    [nightly] = read_schedule_file(written(tmp_path, text)).schedules
    assert nightly.spec.cron == ["@daily"]
    assert nightly.spec.exclude == ["2030-12-24"]
    assert nightly.spec.at == [1896048000.0]
    assert nightly.spec.end_at == 1924959600.0


def test_a_flow_yaml_is_read_from_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(FLOW)
    text = "schedules: [{schedule_id: a, flow_name: a, workflow_file: flow.yaml, spec: {every_sec: 60}}]"
    found = read_schedule_file(written(tmp_path, text))
    assert found.schedules[0].body["workflow_yaml"] == FLOW
    assert found.files == {tmp_path / "schedules.yaml", tmp_path / "flow.yaml"}


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "schedules: []\n"])
def test_a_file_may_have_no_schedules(tmp_path: Path, text: str) -> None:
    assert read_schedule_file(written(tmp_path, text)).schedules == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("schedules: [", "the file is not YAML"),
        ("- a", "expected a mapping with 'schedules', a list of schedules"),
        ("schedules: {a: 1}", "expected a mapping with 'schedules', a list of schedules"),
        ("schedule: []", "schedule: unknown field; did you mean 'schedules'?"),
        ("schedules: [1]", "schedules[0]=1: expected a mapping with the fields of a schedule"),
        (
            "schedules: [{schedule_id: a, flow_name: a, spec: {every_sec: 60}, overlaps: skip}]",
            "schedules[0].overlaps: unknown field; did you mean 'overlap'?",
        ),
        (
            "schedules: [{schedule_id: a, flow_name: a, spec: {cron: '61 * * * *'}}]",
            'schedules[0].spec.cron[0]="61 * * * *"',
        ),
        (
            "schedules: [{schedule_id: a, flow_name: a, workflow_file: no.yaml, spec: {every_sec: 60}}]",
            'schedules[0].workflow_file="no.yaml": the file cannot be read: No such file or directory',
        ),
        (
            "schedules: [{schedule_id: a, flow_name: a, workflow_yaml: 'version: 2', spec: {every_sec: 60}}]",
            "schedules[0].workflow_yaml.flow.graph (line 1, column 1): is missing",
        ),
    ],
)
def test_a_problem_says_where_it_is(tmp_path: Path, text: str, expected: str) -> None:
    assert problems(tmp_path, text)[0].startswith(expected)


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    text = """
schedules:
  - {schedule_id: a, flow_name: a, spec: {every_sec: 0.1}}
  - {schedule_id: b, flow_name: b, spec: {cron: "* * *", timezone: Asia/Tokio}}
  - {schedule_id: c, flow_name: c, spec: {every_sec: 60}}
  - {schedule_id: c, flow_name: c, spec: {every_sec: 60}}
"""
    places = [problem.partition("=")[0] for problem in problems(tmp_path, text)]
    assert places == [
        "schedules[0].spec.every_sec",
        "schedules[1].spec.timezone",
        "schedules[1].spec.cron[0]",
        "schedule_id",
    ]
