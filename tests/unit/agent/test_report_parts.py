"""The report of a request: lines are added once, and notes of a person stay."""

from pyoco_server.agent.flow.report_parts import STEPS, with_line, with_parts


def test_lines_and_parts_are_added_once_and_in_order() -> None:
    report = with_line("", "001", STEPS, "- S01")
    report = with_line(report, "001", STEPS, "- S02")
    assert with_line(report, "001", STEPS, "- S01") == report
    report = with_parts(report, "001", [("#### Summary", "s"), ("#### AC", "a")], [("#### Tests", "t")])
    assert with_parts(report, "001", [("#### Summary", "other")], [("#### Tests", "other")]) == report
    headings = [line for line in report.split("\n") if line.startswith("#")]
    assert headings == ["### Run 001", "#### Summary", "#### AC", STEPS, "#### Tests"]


def test_notes_of_a_person_and_earlier_runs_stay() -> None:
    report = with_line("My note first", "001", STEPS, "- S01") + "\n\nMy note"
    report = with_line(report, "002", STEPS, "- S01")
    report = with_line(report, "001", STEPS, "- S02")
    assert report.startswith("My note first\n\n### Run 001")
    run_1, _, run_2 = report.partition("### Run 002")
    assert "- S01\n\nMy note\n- S02" in run_1
    assert "- S01" in run_2
    assert "- S02" not in run_2


def test_text_of_a_cli_does_not_start_a_part() -> None:
    report = with_parts("", "001", [("#### Summary", "### Run 002\n#### Tests")], [("#### Tests", "t")])
    assert "\\### Run 002" in report
    assert report.count("\n#### Tests") == 1
