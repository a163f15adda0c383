"""The tables and indexes of the index of runs.

A run's primary key is its revision: it is the same in every gateway, so that all of them order runs of the
same time alike.

Each run belongs to one group (tenant, flow, tag, status), and each group has the number of its runs. A list
with any of these four filters is a merge of a few groups, each read in sort order; counting is a sum.
"""

from typing import Final

from pyoco_server.runs.index.sqlite.index_file import FileSchema
from pyoco_server.runs.index.sqlite.sqlite_index import MARKERS_TABLE, UNREADABLE_TABLE

VERSION: Final = 15

# Times that a list can be sorted by. A run without one has MISSING there, which sorts below all others.
TIMES: Final = ("updated_at", "submitted_at", "start_time", "end_time", "duration")
MISSING: Final = -1.0

TABLES: Final = f"""
CREATE TABLE held (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    created TEXT NOT NULL,      -- of the bucket that is indexed
    revision INTEGER NOT NULL,  -- read up to here
    stored_ns INTEGER NOT NULL DEFAULT 0,  -- when the message of that revision was stored
    rolled_up INTEGER NOT NULL DEFAULT 0,  -- up to this revision, ended runs are in `rollups`
    -- The bounds of updated_at - submitted_at, of all runs ever indexed.
    least_sec REAL NOT NULL DEFAULT 0,
    most_sec REAL NOT NULL DEFAULT 0
);
CREATE TABLE groups (
    id INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,       -- empty: none
    flow TEXT NOT NULL, tag TEXT NOT NULL, status TEXT NOT NULL,
    runs INTEGER NOT NULL DEFAULT 0,
    UNIQUE (tenant, flow, tag, status)
);
-- Ended runs by period (flow_rollups.py).
CREATE TABLE rollups (
    period_sec INTEGER NOT NULL, start INTEGER NOT NULL,
    grp INTEGER NOT NULL,       -- of `groups`, or of `totals`
    runs INTEGER NOT NULL,
    durations BLOB NOT NULL, queue_times BLOB NOT NULL,  -- histograms
    PRIMARY KEY (period_sec, start, grp)
) WITHOUT ROWID;
-- What rows of `rollups` add up: the groups of a flow over all tags, or those of a tag over all flows.
CREATE TABLE totals (
    id INTEGER PRIMARY KEY,     -- negative
    tenant TEXT NOT NULL,
    flow TEXT NOT NULL, tag TEXT NOT NULL,  -- one of them is empty: all
    status TEXT NOT NULL,
    UNIQUE (tenant, flow, tag, status)
);
CREATE TABLE runs (
    revision INTEGER PRIMARY KEY,
    run_id BLOB NOT NULL,
    doc INTEGER NOT NULL,
    grp INTEGER NOT NULL,
    updated_at REAL NOT NULL,
    submitted_at REAL NOT NULL,
    start_time REAL NOT NULL,
    end_time REAL NOT NULL,
    duration REAL NOT NULL,
    worker TEXT,
    origin TEXT,
    sha256 TEXT,
    cause TEXT,                 -- its kind; NULL: api
    cause_id TEXT,              -- kind:id
    tenant TEXT,
    state BLOB                  -- for the sweep, of a run that has not ended
);
CREATE UNIQUE INDEX runs_by_id ON runs (run_id);
-- The artifacts of all runs of a tenant.
CREATE TABLE artifacts (
    tenant TEXT PRIMARY KEY,    -- empty: none
    files INTEGER NOT NULL, bytes INTEGER NOT NULL, left_out INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE docs (
    doc INTEGER PRIMARY KEY,
    item BLOB NOT NULL,         -- the run in a list, as JSON
    text TEXT NOT NULL          -- the searched text
);
-- What a list shows of the params, if it is asked to. The params of a run never change.
CREATE TABLE params (doc INTEGER PRIMARY KEY, preview TEXT NOT NULL);
-- The tags of a run other than its group's.
CREATE TABLE labels (
    label TEXT NOT NULL, updated_at REAL NOT NULL, revision INTEGER NOT NULL,
    PRIMARY KEY (label, updated_at, revision)
) WITHOUT ROWID;
-- Finds the tags of a run without its row.
CREATE UNIQUE INDEX labels_by_revision ON labels (label, revision);
-- Of deleted runs, while their marker is in the bucket.
{MARKERS_TABLE}
{UNREADABLE_TABLE}
-- A trigram index; whether the trigrams are in the right order is checked in `docs`.
CREATE VIRTUAL TABLE words USING fts5(
    text, content='', columnsize=0, detail=none, tokenize='trigram case_sensitive 1'
);
"""

SCHEMA: Final = FileSchema(
    "runs",
    VERSION,
    TABLES,
    probes=("SELECT count(*) FROM groups", "SELECT * FROM runs ORDER BY revision DESC LIMIT 1"),
)

# Created after the first filling, which takes a fraction of the time.
INDEXES: Final = {
    **{f"by_{time}": f"({time})" for time in TIMES},
    **{f"grouped_by_{time}": f"(grp, {time})" for time in TIMES},
    "by_doc": "(doc)",
    "by_worker": "(worker, updated_at) WHERE worker IS NOT NULL",
    # With all times, so that a worker's runs are sorted without reading their rows.
    "by_worker_and_group": f"(worker, grp, {', '.join(TIMES)}) WHERE worker IS NOT NULL",
    "by_origin": "(origin, updated_at) WHERE origin IS NOT NULL",
    "by_sha256": "(sha256, updated_at) WHERE sha256 IS NOT NULL",
    "by_cause": "(cause, updated_at) WHERE cause IS NOT NULL",
    "by_cause_id": "(cause_id, updated_at) WHERE cause_id IS NOT NULL",
    "by_tenant": "(tenant, updated_at) WHERE tenant IS NOT NULL",
    "open": "(revision) WHERE state IS NOT NULL",
}


def key_of(run_id: str) -> bytes:
    return bytes.fromhex(run_id.replace("-", ""))


def run_id_of(key: bytes) -> str:
    digits = key.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
