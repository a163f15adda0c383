"""schedules.yaml: what it may contain, and every problem of it at once."""

from pathlib import Path

import pytest

from pyoco_server.cli.commands.schedules.schedule_file import read_schedule_file
from pyoco_server.errors import InvalidRequest
from pyoco_server.records.schedules.schedule_models import ScheduleSpec

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


def test_a_file_may_have_no_schedules(tmp_path: Path) -> None:
    assert read_schedule_file(written(tmp_path, "schedules: []\n")).schedules == []


@pytest.mark.parametrize("text", ["", "# nothing yet\n"])
def test_an_empty_file_does_not_mean_no_schedules(tmp_path: Path, text: str) -> None:
    assert problems(tmp_path, text) == ["the file is empty; for no schedules, write 'schedules: []'"]


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        (
            "{d: 2027-01-01}",
            'schedules[0].params.d="2027-01-01": YAML reads this as a date',
        ),
        ("{a: [1, .nan]}", 'schedules[0].params.a[1]="nan": expected a finite number'),
        ("{f: -.inf}", 'schedules[0].params.f="-inf": expected a finite number'),
        ("{b: !!binary aGk=}", "schedules[0].params.b: JSON has no value of this kind (bytes)"),
        ("{s: !!set {a, b}}", "schedules[0].params.s: JSON has no value of this kind (set)"),
        ("{1: a}", "schedules[0].params.1: expected text as the name of a field; write it in quotes"),
        ("&p {self: *p}", "schedules[0].params.self: an alias (*name) contains itself; write the value out"),
    ],
)
def test_a_value_that_json_does_not_have_is_named_by_its_path(
    tmp_path: Path, params: str, expected: str
) -> None:
    text = f"schedules: [{{schedule_id: a, flow_name: a, spec: {{every_sec: 60}}, params: {params}}}]"
    [problem] = problems(tmp_path, text)
    assert problem.startswith(expected)


def test_a_file_that_is_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    params = "{a: " * 120 + "1" + "}" * 120
    text = f"schedules: [{{schedule_id: a, flow_name: a, spec: {{every_sec: 60}}, params: {params}}}]"
    assert "deep" in problems(tmp_path, text)[0]


def test_an_alias_that_is_used_twice_is_no_problem(tmp_path: Path) -> None:
    text = """
schedules:
  - {schedule_id: a, flow_name: a, spec: &often {every_sec: 60}}
  - {schedule_id: b, flow_name: b, spec: *often}
"""
    first, second = read_schedule_file(written(tmp_path, text)).schedules
    assert first.spec == second.spec


def test_every_problem_of_an_entry_is_reported(tmp_path: Path) -> None:
    text = """
schedules:
  - schedule_id: has.dot
    overlaps: skip
    overlap: sometimes
    tags: 5
    params: {f: .nan}
    workflow_yaml: "version: 2"
    spec: {every_sec: 1e1, jitter_sec: -1, timezone: Asia/Tokio, crons: []}
"""
    places = [problem.partition("=")[0].partition(":")[0] for problem in problems(tmp_path, text)]
    assert sorted(places) == [
        "schedules[0].flow_name",
        "schedules[0].overlap",
        "schedules[0].overlaps",
        "schedules[0].params.f",
        "schedules[0].schedule_id",
        "schedules[0].spec.crons",
        "schedules[0].spec.every_sec",
        "schedules[0].spec.jitter_sec",
        "schedules[0].spec.timezone",
        "schedules[0].tags",
        "schedules[0].workflow_yaml.flow.graph (line 1, column 1)",
        "schedules[0].workflow_yaml.version",
    ]


def test_a_number_that_yaml_reads_as_text_has_a_cure(tmp_path: Path) -> None:
    text = "schedules: [{schedule_id: a, flow_name: a, spec: {every_sec: 1e1}}]"
    [problem] = problems(tmp_path, text)
    assert problem.startswith('schedules[0].spec.every_sec="1e1": expected a number')
    assert "1.0e+1" in problem


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
