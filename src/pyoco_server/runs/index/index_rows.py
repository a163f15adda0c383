"""The rows of runs: what is there of some, and what is to be there, written together."""

import sqlite3
from collections import Counter
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Struct

from pyoco_server.runs.index.index_schema import MISSING
from pyoco_server.runs.index.run_summary import RunItem, RunSummary
from pyoco_server.runs.index.statements import ManyRows
from pyoco_server.runs.sweep.open_runs import RunState

_FIND: Final = ManyRows(
    "SELECT r.run_id, r.revision, r.doc, r.grp, r.updated_at, d.text, d.item "
    "FROM runs r JOIN docs d USING (doc) WHERE r.run_id IN ({})",
    "?",
)
_DELETE_RUNS: Final = ManyRows("DELETE FROM runs WHERE revision IN ({})", "?")
_DELETE_DOCS: Final = ManyRows("DELETE FROM docs WHERE doc IN ({})", "?")
_FORGET_WORDS: Final = ManyRows("INSERT INTO words (words, rowid, text) VALUES {}", "('delete', ?, ?)")
_PUT_DOCS: Final = ManyRows("INSERT OR REPLACE INTO docs VALUES {}", "(?, ?, ?)")
_PUT_WORDS: Final = ManyRows("INSERT INTO words (rowid, text) VALUES {}", "(?, ?)")
_PUT_RUNS: Final = ManyRows("INSERT INTO runs VALUES {}", f"({', '.join('?' * 14)})")
_PUT_LABELS: Final = ManyRows("INSERT INTO labels VALUES {}", "(?, ?, ?)")


class _Tags(Struct):
    tag: str
    tags: list[str]


_encode = msgspec.json.Encoder().encode
_decode_item = msgspec.json.Decoder(RunItem).decode
_decode_tags = msgspec.json.Decoder(_Tags).decode


class SeenWrite(Struct, frozen=True, gc=False):
    """One write to the runs bucket, as it was read."""

    run_id: str
    revision: int
    # None when the run was removed.
    data: bytes | None
    # None also when it cannot be read.
    summary: RunSummary | None = None
    # Of a run that has not ended.
    state: RunState | None = None
    removed: bool = False


class KnownRun(Struct, frozen=True, gc=False):
    """What is there of a run."""

    revision: int
    doc: int
    grp: int
    updated_at: float
    text: str
    item: bytes

    @property
    def summary(self) -> RunSummary:
        return RunSummary(item=_decode_item(self.item), text=self.text)


def known_runs(db: sqlite3.Connection, keys: Iterable[bytes]) -> dict[bytes, KnownRun]:
    """Those of them that are there."""
    return {row[0]: KnownRun(*row[1:]) for row in _FIND.run(db, [(key,) for key in keys])}


class RowChanges:
    """What is to be written, and what it takes the place of."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        # By how much the number of runs changes, by group.
        self.counted: Counter[int] = Counter()
        [(self._last_doc,)] = db.execute("SELECT coalesce(max(doc), 0) FROM docs")
        self._old_runs: list[tuple[int]] = []
        self._old_docs: list[tuple[int]] = []
        self._old_words: list[tuple[int, str]] = []
        self._old_labels: list[tuple[str, float, int]] = []
        self._runs: list[tuple[object, ...]] = []
        self._docs: list[tuple[int, bytes, str]] = []
        self._words: list[tuple[int, str]] = []
        self._labels: list[tuple[str, float, int]] = []

    def drop(self, known: KnownRun) -> None:
        self._drop_run(known)
        self._old_words.append((known.doc, known.text))
        self._old_docs.append((known.doc,))

    def put(
        self, write: SeenWrite, summary: RunSummary, key: bytes, *, group: int, known: KnownRun | None
    ) -> None:
        """The run as it was written, in place of what is known of it."""
        item, text = summary.item, summary.text
        if known is None:
            self._last_doc += 1
            doc = self._last_doc
            self._words.append((doc, text))
        else:
            doc = known.doc
            self._drop_run(known)
            if text != known.text:
                self._old_words.append((doc, known.text))
                self._words.append((doc, text))
        self._docs.append((doc, _encode(item), text))
        self._runs.append(
            (
                write.revision,
                key,
                doc,
                group,
                item.updated_at,
                MISSING if item.submitted_at is None else item.submitted_at,
                MISSING if item.start_time is None else item.start_time,
                MISSING if item.end_time is None else item.end_time,
                MISSING if item.duration_sec is None else item.duration_sec,
                item.worker_id,
                item.origin_run_id,
                item.workflow_yaml_sha256,
                item.tenant_id,
                None if write.state is None else _encode(write.state),
            )
        )
        self.counted[group] += 1
        self._labels += _labels(item.tag, item.tags, item.updated_at, write.revision)

    def write(self) -> None:
        db = self._db
        _DELETE_RUNS.do(db, self._old_runs)
        _FORGET_WORDS.do(db, self._old_words)
        _DELETE_DOCS.do(db, self._old_docs)
        db.executemany(
            "DELETE FROM labels WHERE label = ? AND updated_at = ? AND revision = ?", self._old_labels
        )
        _PUT_DOCS.do(db, self._docs)
        _PUT_WORDS.do(db, self._words)
        _PUT_RUNS.do(db, self._runs)
        _PUT_LABELS.do(db, self._labels)
        changed = [(count, group) for group, count in self.counted.items() if count]
        db.executemany("UPDATE groups SET runs = runs + ? WHERE id = ?", changed)

    def _drop_run(self, known: KnownRun) -> None:
        self._old_runs.append((known.revision,))
        self.counted[known.grp] -= 1
        of = _decode_tags(known.item)
        self._old_labels += _labels(of.tag, of.tags, known.updated_at, known.revision)


def _labels(tag: str, tags: list[str], updated_at: float, revision: int) -> list[tuple[str, float, int]]:
    """Rows for the tags beside the one that is the group's; most runs have none."""
    if tags == [tag]:
        return []
    return [(label, updated_at, revision) for label in {*tags} - {tag}]
