"""The section `## Report`: a part for each run, to which lines are added and from which none is removed.

A person may write notes anywhere in it. A line that is there already is not added again, so that an attempt
after a crash can repeat what it was doing.
"""

from collections.abc import Sequence
from typing import Final

STEPS: Final = "#### Steps Executed"
NOTES: Final = "#### Risks / Notes"
NEXT_ACTIONS: Final = "#### Next Actions (Human)"
_CHARS: Final = 4000


def run_heading(run_number: str) -> str:
    return f"### Run {run_number}"


def with_line(report: str, run_number: str, heading: str, line: str) -> str:
    """The report with a line at the end of a part of the run; the part is added where it is missing."""
    lines = report.split("\n") if report else []
    start = _start_of_run(lines, run_number)
    if start is None:
        lines += [*([""] if lines else []), run_heading(run_number), "", heading, "", line]
        return "\n".join(lines)
    end = _end_of_run(lines, start)
    if line in lines[start:end]:
        return report
    place = _end_of_part(lines, heading, start, end)
    if place is None:
        lines[end:end] = [*_gap(lines[:end]), heading, "", line]
    else:
        lines.insert(place, line)
    return "\n".join(lines)


def with_parts(
    report: str, run_number: str, before: Sequence[tuple[str, str]], after: Sequence[tuple[str, str]]
) -> str:
    """The report with further parts of a run, before and after what it has; each is added once."""
    lines = report.split("\n") if report else []
    if _start_of_run(lines, run_number) is None:
        lines += [*([""] if lines else []), run_heading(run_number)]
    for heading, text in reversed(before):
        start = _start_of_run(lines, run_number) or 0
        if heading not in lines[start : _end_of_run(lines, start)]:
            lines[start + 1 : start + 1] = ["", heading, "", *_body(text)]
    for heading, text in after:
        start = _start_of_run(lines, run_number) or 0
        end = _end_of_run(lines, start)
        if heading not in lines[start:end]:
            lines[end:end] = [*_gap(lines[:end]), heading, "", *_body(text)]
    return "\n".join(lines)


def flat(text: str) -> str:
    """One line of Markdown."""
    return " ".join(text.split())[:_CHARS]


def _body(text: str) -> list[str]:
    """A text of a CLI: its headings must not look like parts of the report."""
    return [f"\\{line}" if line.startswith("#") else line for line in text[:_CHARS].strip().split("\n")]


def _start_of_run(lines: Sequence[str], run_number: str) -> int | None:
    heading = run_heading(run_number)
    return next((number for number, line in enumerate(lines) if line.rstrip() == heading), None)


def _end_of_run(lines: Sequence[str], start: int) -> int:
    later = (number for number, line in enumerate(lines) if number > start and line.startswith("### "))
    return next(later, len(lines))


def _end_of_part(lines: Sequence[str], heading: str, start: int, end: int) -> int | None:
    """After the last line of a part that is not empty."""
    place = next((number for number in range(start, end) if lines[number].rstrip() == heading), None)
    if place is None:
        return None
    stop = next((number for number in range(place + 1, end) if lines[number].startswith("#")), end)
    while stop > place + 1 and not lines[stop - 1].strip():
        stop -= 1
    return max(stop, min(place + 2, end)) if stop == place + 1 else stop


def _gap(before: Sequence[str]) -> list[str]:
    return [""] if before and before[-1].strip() else []
