"""The events of a run are stored by its owner only, and a rejected event does not block others."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from pyoco_server.broker.client.connection import Connection, NoAnswer, PayloadTooLarge
from pyoco_server.broker.stores.runs.journal_store import Journal
from pyoco_server.broker.stores.runs.run_log_store import RunLogs
from pyoco_server.records.runs.journal_models import JournalEntry
from pyoco_server.records.runs.log_models import LogLine
from pyoco_server.records.runs.run_models import new_run_id
from pyoco_server.records.waits.wait_models import Question
from pyoco_server.runs.lifecycle.ownership import RunTaken
from pyoco_server.worker.session import run_recorder
from pyoco_server.worker.session.run_recorder import RunRecorder
from tests.support.waiting import LIMIT_SEC, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Recording:
    """A recorder, and what it has stored."""

    def __init__(self, connection: Connection) -> None:
        self.run_id = new_run_id()
        self.connection = connection
        self.journal = Journal(connection)
        self.logs = RunLogs(connection)
        self.asked = 0
        self.answer: Exception | None = None
        self.tried = 0
        # What is answered to a question instead of asking it.
        self.refusal: Exception | None = None
        self.questions: list[Question] = []
        # For each question, the journal at that time.
        self.journalled_before: list[list[str]] = []
        self.recorder = RunRecorder(
            connection,
            self.journal,
            self.logs,
            self.run_id,
            tag="default",
            ask=self._ask,
            verify_ownership=self._verify_ownership,
        )

    async def _ask(self, question: Question) -> None:
        self.tried += 1
        if self.refusal is not None:
            raise self.refusal
        self.questions.append(question)
        self.journalled_before.append(await self.keys())

    async def _verify_ownership(self) -> None:
        self.asked += 1
        if self.answer is not None:
            raise self.answer

    def prints(self, *texts: str) -> None:
        self.recorder.printed([LogLine(ts=1.0, stream="stdout", text=text, task="t") for text in texts])

    def finishes(self, key: str, output: bytes = b"") -> None:
        entry = JournalEntry(key=key, task=key, attempt=1, started_at=1.0, ended_at=2.0, output=output)
        self.recorder.finished(entry)

    def asks(self, name: str) -> None:
        self.recorder.asked(Question(node="ask||0", task="ask", name=name, message="?"))

    async def messages(self) -> list[list[str]]:
        batches = await self.logs.read(self.run_id, after=0, limit=1000, max_bytes=0)
        return [[line.text for line in batch.lines] for batch in batches]

    async def texts(self) -> list[str]:
        return [text for message in await self.messages() for text in message]

    async def keys(self) -> list[str]:
        return [entry.key for entry in await self.journal.entries("default", self.run_id)]


@pytest_asyncio.fixture(loop_scope="module")
async def recording(
    shared_connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Recording]:
    # Slow writes are not abandoned.
    monkeypatch.setattr(run_recorder, "_FLUSH_SEC", 60.0)
    recording = Recording(shared_connection)
    yield recording
    await recording.recorder.close()


@pytest.mark.parametrize("text", ["", "\x01" * 100, "\U0001f600" * 100])
async def test_batches_are_limited_by_encoded_size(
    recording: Recording, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    sizes: list[int] = []
    request = Connection.request

    async def measured(self: Connection, subject: str, payload: bytes = b"", headers: Any = None) -> Any:
        sizes.append(len(payload))
        return await request(self, subject, payload, headers)

    with monkeypatch.context() as patch:
        patch.setattr(Connection, "request", measured)
        recording.prints(*[f"{number}{text}" for number in range(20_000)])
        await recording.recorder.flush()
    assert max(sizes) < recording.connection.max_record_bytes / 2
    assert await recording.texts() == [f"{number}{text}" for number in range(20_000)]


async def test_lines_too_large_for_nats_are_dropped_with_a_note(
    recording: Recording, caplog: pytest.LogCaptureFixture
) -> None:
    recording.prints("x" * 2_000_000, "after it")
    await recording.recorder.flush()
    note, after = await recording.texts()
    assert note.startswith("1 lines were dropped because NATS takes no message that large (20000")
    assert after == "after it"
    assert "lines of a run were dropped" in caplog.text


async def test_a_note_that_is_too_large_is_not_retried(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = 0

    async def refuse(self: RunLogs, run_id: str, lines: list[LogLine]) -> None:
        nonlocal tried
        tried += 1
        raise PayloadTooLarge("the stream takes 1 byte")

    monkeypatch.setattr(RunLogs, "publish", refuse)
    recording.prints("a", "b")
    await recording.recorder.flush()
    assert tried == 2


async def test_an_entry_that_nats_rejects_is_not_retried(
    recording: Recording, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(self: Journal, tag: str, run_id: str, entry: JournalEntry) -> None:
        raise PayloadTooLarge("the stream takes 1 byte")

    monkeypatch.setattr(Journal, "append", refuse)
    recording.finishes("load")
    async with asyncio.timeout(LIMIT_SEC):  # settling gives up after a minute
        await recording.recorder.flush()
    assert (
        "task load is not in the journal and would be executed again: the stream takes 1 byte" in caplog.text
    )


async def test_ownership_is_checked_before_each_publish(recording: Recording) -> None:
    recording.finishes("one")
    recording.finishes("two")
    recording.prints(*["x" * 100_000] * 3)
    await recording.recorder.flush()
    assert (len(await recording.keys()), len(await recording.messages())) == (2, 3)
    assert recording.asked == 5


async def test_nothing_is_stored_for_a_run_with_another_owner(
    recording: Recording, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    recording.prints("mine")
    await recording.recorder.flush()
    recording.answer = RunTaken("worker other owns the run")
    recording.finishes("one")
    recording.finishes("two")
    recording.prints("not mine")
    await recording.recorder.flush()
    recording.answer = None
    recording.finishes("three")
    recording.prints("nor this")
    await recording.recorder.flush()
    assert (await recording.texts(), await recording.keys()) == (["mine"], [])
    assert caplog.text.count("nothing more is stored for a run: worker other owns the run") == 1


async def test_a_run_taken_over_during_an_outage_is_flushed_at_once(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording.answer = recording.connection.unavailable("no answer")
    waits = asyncio.Event()

    async def wait_for_ever(self: Connection, timeout_sec: float | None = None) -> None:
        waits.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patch:
        patch.setattr(Connection, "wait_ready", wait_for_ever)
        recording.prints("kept")
        await eventually(waits.is_set, describe="the line waits for NATS")
        recording.answer = RunTaken("worker other owns the run")
        recording.finishes("one")
        async with asyncio.timeout(LIMIT_SEC):  # settling gives up after a minute
            await recording.recorder.flush()
    assert (await recording.texts(), await recording.keys()) == ([], [])


@pytest.mark.parametrize("trouble", ["several messages", "an outage"])
async def test_entries_are_stored_in_order(
    recording: Recording, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    """At no time: the worker may be gone in the next moment."""
    seen: list[list[str]] = []
    publish = Journal._publish
    refused: list[bytes] = []

    async def watched(self: Journal, subject: str, payload: bytes, headers: Any) -> None:
        if trouble == "an outage" and not refused:
            refused.append(payload)
            raise recording.connection.unavailable("once")
        await publish(self, subject, payload, headers)
        seen.append(await recording.keys())

    monkeypatch.setattr(Journal, "_publish", watched)
    recording.finishes("first", b"x" * 2_000_000 if trouble == "several messages" else b"1")
    if trouble == "an outage":
        await eventually(lambda: refused, describe="the first was refused")
    recording.finishes("second", b"1")
    recording.finishes("third", b"1")
    await recording.recorder.flush()
    assert await recording.keys() == ["first", "second", "third"]
    assert all(keys[:1] in ([], ["first"]) for keys in seen), seen
    assert len(seen) >= 3


async def test_an_outage_is_logged_once_and_retried(
    recording: Recording, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(run_recorder, "_RETRY_SEC", 0.001)

    async def outage(keys: list[str]) -> None:
        recording.answer, before = (
            recording.connection.unavailable("JetStream refused the write"),
            recording.asked,
        )
        for key in keys:
            recording.finishes(key)
        recording.prints(*keys)
        await eventually(lambda: recording.asked > before + 20, describe="many attempts")
        recording.answer = None
        await recording.recorder.flush()

    await outage(["one", "two"])
    assert caplog.text.count("a finished task is not stored yet") == 1
    assert caplog.text.count("the log of a run is not stored yet") == 1
    await outage(["three"])
    assert caplog.text.count("a finished task is not stored yet") == 2
    assert (await recording.texts(), sorted(await recording.keys())) == (
        ["one", "two", "three"],
        ["one", "three", "two"],
    )


async def test_nothing_is_stored_after_close(recording: Recording) -> None:
    await recording.recorder.close()
    recording.prints("late")
    recording.finishes("late")
    await recording.recorder.flush()
    assert (recording.asked, await recording.texts(), await recording.keys()) == (0, [], [])


# Questions to people


async def test_a_question_is_stored_after_earlier_entries(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person must not see inputs that the next owner might compute differently."""
    append, stored = Journal.append, asyncio.Event()

    async def held(self: Journal, tag: str, run_id: str, entry: JournalEntry) -> None:
        if entry.key == "before":
            await stored.wait()
        await append(self, tag, run_id, entry)

    monkeypatch.setattr(Journal, "append", held)
    recording.finishes("before")
    recording.asks("first")
    recording.finishes("beside")

    async def beside() -> bool:
        return await recording.keys() == ["beside"]

    await eventually(beside, describe="events after the question are not delayed")
    assert recording.questions == []
    stored.set()
    await recording.recorder.flush()
    assert [question.name for question in recording.questions] == ["first"]
    assert "before" in recording.journalled_before[0]


async def test_a_question_is_stored_once_after_an_outage(
    recording: Recording, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(run_recorder, "_RETRY_SEC", 0.001)
    recording.refusal = recording.connection.unavailable("JetStream refused the write")
    recording.asks("patient")
    await eventually(lambda: recording.tried > 5, describe="many attempts")
    assert not recording.recorder.is_flushed
    recording.refusal = None
    await recording.recorder.flush()
    assert [question.name for question in recording.questions] == ["patient"]
    assert caplog.text.count("a question to a person is not stored yet") == 1


async def test_a_question_that_is_too_large_is_not_retried(
    recording: Recording, caplog: pytest.LogCaptureFixture
) -> None:
    """`RunQuestions.flush` asks again there, and the run fails with the reason."""
    recording.refusal = PayloadTooLarge("the stream takes 1 byte")
    recording.asks("large")
    await recording.recorder.flush()
    assert (recording.tried, recording.recorder.is_flushed) == (1, True)
    assert "a record of a run was lost" not in caplog.text


async def test_no_question_is_stored_for_a_run_that_was_taken_over_or_has_ended(recording: Recording) -> None:
    recording.answer = RunTaken("worker other owns the run")
    recording.asks("taken")
    await recording.recorder.flush()
    recording.answer = None
    recording.asks("afterwards")
    await recording.recorder.close()
    recording.asks("late")
    await recording.recorder.flush()
    assert recording.tried == 0


async def test_lines_are_bounded_and_counted_while_nats_is_connected_but_does_not_store(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_recorder, "_KEPT_BYTES", 2_000)
    recording.answer = NoAnswer("no answer within 1.5 s")
    recording.prints("first")
    await eventually(lambda: recording.asked > 1, describe="it is tried again")
    for number in range(100):
        recording.prints(f"line {number} {'x' * 100}")
    assert recording.recorder._bytes < 2_500
    recording.answer = None
    await eventually(lambda: recording.recorder.is_flushed, describe="everything is stored")
    texts = await recording.texts()
    [note] = [text for text in texts if "were dropped while NATS did not store them" in text]
    assert int(note.split()[0]) + len(texts) == 100 + 1 + 1
