"""Searches ignore case, width and composition."""

import pytest

from pyoco_server.records.runs.dead_letter_models import DeadLetter
from pyoco_server.records.runs.log_models import LogLine
from pyoco_server.runs.bulk.letter_operations import LetterFilter
from pyoco_server.runs.index.run_summary import folded
from pyoco_server.runs.index.search.run_filter import RunFilter
from pyoco_server.runs.watch.log_reading import LogFilter
from tests.unit.runs.test_run_filter import made_index, run_id

PAIRS = [
    ("ΟΔΟΣΑ", "ΟΔΟΣ"),
    ("οδός", "ΟΔΌΣ"),
    ("STRASSE", "straße"),
    ("cafe\u0301", "CAFÉ"),
    ("ＥＴＬ", "etl"),
    ("ｶﾞｿﾘﾝ", "ガソリン"),
    ("ﬁnance", "FIN"),
    ("Zürich", "zu\u0308"),
]


@pytest.mark.parametrize(("written", "asked"), PAIRS)
def test_every_search_finds_it(written: str, asked: str) -> None:
    assert LogFilter(search=asked).matches(LogLine(ts=1.0, stream="stdout", text=f"- {written} -"))
    letter = DeadLetter(timestamp=1.0, reason="timeout", error=f"- {written} -")
    assert LetterFilter(q=asked).matches(letter)


def test_the_index_finds_it() -> None:
    with made_index() as index:
        for number, (written, _) in enumerate(PAIRS):
            fields = {"flow_name": "f", "status": "PENDING", "updated_at": 1.0, "params": {"at": written}}
            index.write(run_id(number), fields)
        for revision, (_, asked) in enumerate(PAIRS, start=1):
            found = index.search(RunFilter(q=asked)).page(100)
            assert revision in [key.revision for key in found], asked


@pytest.mark.parametrize("text", ["", "Plain ASCII 123", "x\x00y"])
def test_ascii_is_only_put_into_lower_case(text: str) -> None:
    assert folded(text) == text.lower()
