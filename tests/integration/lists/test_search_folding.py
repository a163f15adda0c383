"""Searches ignore case, width and composition."""

import pytest

from pyoco_server.records.models import DeadLetter, LogLine
from pyoco_server.runs.bulk.letter_operations import LetterFilter
from pyoco_server.runs.index.run_summary import folded
from pyoco_server.runs.watch.log_reading import LogFilter
from tests.integration.lists.test_run_list import ids
from tests.support.broker.stored_runs import ended, write
from tests.support.running.gateway import RunningGateway

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


async def test_a_list_finds_it(gateway: RunningGateway) -> None:
    runs = [ended(at=float(number), params={"at": text}) for number, (text, _) in enumerate(PAIRS)]
    written = await write(gateway.inside.runs.store, *runs)
    for (_, asked), run_id in zip(PAIRS, written, strict=True):
        assert run_id in await ids(gateway, q=asked), asked


@pytest.mark.parametrize("text", ["", "Plain ASCII 123", "x\x00y"])
def test_ascii_is_only_put_into_lower_case(text: str) -> None:
    assert folded(text) == text.lower()
