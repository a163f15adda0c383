"""The tables of the index, and why each of their indexes is there.

A run's row is known by the run's revision: every gateway has the same one, so that it orders runs of the
same second alike everywhere, and an unchanged run keeps its place.

Each run belongs to one group, that is to one tenant, flow, tag and status, and a group knows how many runs it
has. A list with any of these four filters is then a merge of a few groups, each read in the order wanted;
nothing is read that is not shown, and counting adds a few numbers.
"""

from typing import Final

from pyoco_server.runs.index.index_file import FileForm
from pyoco_server.runs.index.tombstones import TABLE as MARKERS

VERSION: Final = 8

# Times that a list can be sorted by. A run without one has MISSING there, and counts as smaller than others.
TIMES: Final = ("updated_at", "submitted_at", "start_time", "end_time", "duration")
MISSING: Final = -1.0

TABLES: Final = f"""
CREATE TABLE held (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    created TEXT NOT NULL,      -- of which bucket this is the index
    revision INTEGER NOT NULL,  -- up to where it was read
    stored_ns INTEGER NOT NULL DEFAULT 0,  -- when the message of that revision was stored
    -- How long after its submission a run was updated, of all runs ever seen.
    least_sec REAL NOT NULL DEFAULT 0,
    most_sec REAL NOT NULL DEFAULT 0
);
CREATE TABLE groups (
    id INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,       -- empty: of none
    flow TEXT NOT NULL, tag TEXT NOT NULL, status TEXT NOT NULL,
    runs INTEGER NOT NULL DEFAULT 0,
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
    tenant TEXT,
    state BLOB                  -- what the sweep wants to know of a run that has not ended
);
CREATE UNIQUE INDEX runs_by_id ON runs (run_id);
CREATE TABLE docs (
    doc INTEGER PRIMARY KEY,
    item BLOB NOT NULL,         -- the run in a list, as JSON
    text TEXT NOT NULL          -- what a search looks through
);
-- The tags of a run beside the one that is its group's.
CREATE TABLE labels (
    label TEXT NOT NULL, updated_at REAL NOT NULL, revision INTEGER NOT NULL,
    PRIMARY KEY (label, updated_at, revision)
) WITHOUT ROWID;
-- Whether a run that comes in another order has a tag is seen here, without looking for its row.
CREATE UNIQUE INDEX labels_by_revision ON labels (label, revision);
-- Of removed runs, as long as the bucket still says that they were removed.
{MARKERS}
-- Every three characters that follow each other. Whether they do so in the right order is seen in `docs`.
CREATE VIRTUAL TABLE words USING fts5(
    text, content='', columnsize=0, detail=none, tokenize='trigram case_sensitive 1'
);
"""

FORM: Final = FileForm(
    "runs",
    VERSION,
    TABLES,
    probes=("SELECT count(*) FROM groups", "SELECT * FROM runs ORDER BY revision DESC LIMIT 1"),
)

# Made after the first filling: that takes a fraction of the time.
INDEXES: Final = {
    **{f"by_{time}": f"({time})" for time in TIMES},
    **{f"grouped_by_{time}": f"(grp, {time})" for time in TIMES},
    "by_doc": "(doc)",
    "by_worker": "(worker, updated_at) WHERE worker IS NOT NULL",
    # With all times: what is left of a worker's runs is sorted without looking for their rows.
    "by_worker_and_group": f"(worker, grp, {', '.join(TIMES)}) WHERE worker IS NOT NULL",
    "by_origin": "(origin, updated_at) WHERE origin IS NOT NULL",
    "by_sha256": "(sha256, updated_at) WHERE sha256 IS NOT NULL",
    "by_tenant": "(tenant, updated_at) WHERE tenant IS NOT NULL",
    "open": "(revision) WHERE state IS NOT NULL",
}


def key_of(run_id: str) -> bytes:
    return bytes.fromhex(run_id.replace("-", ""))


def run_id_of(key: bytes) -> str:
    digits = key.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
