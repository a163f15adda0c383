"""`make bench`: measure the product and its peers side by side on this machine, and print the results."""

import argparse
import sys
from pathlib import Path

import uvloop
from rich.console import Console
from rich.table import Table as RichTable

from benchmarks.comparison.rounds import take
from benchmarks.harness.environments import ROOT, NotMeasured
from benchmarks.peers import PEERS
from benchmarks.report import page, tables
from benchmarks.report.results import Results

_PARTIAL = ROOT / ".pyoco" / "bench" / "partial.json"


def main() -> int:
    options = _options()
    if options.page:
        return _write_page()
    if unknown := set(options.peers) - {peer.name for peer in PEERS}:
        print(f"no such peer: {', '.join(sorted(unknown))}; there are {_names()}", file=sys.stderr)
        return 1
    peers = [peer for peer in PEERS if not options.peers or peer.name in options.peers]
    results = uvloop.run(take(peers, rounds=options.rounds, quick=options.quick))
    complete = not options.quick and len(peers) == len(PEERS)
    file: Path = options.json.resolve() if options.json else page.LATEST if complete else _PARTIAL
    results.write(file)
    _print(results)
    print(f"\nEvery round: {file}")
    if file == page.LATEST:
        return _write_page()
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="leave out the 30 s of load")
    parser.add_argument("--rounds", type=int, default=5, help="rounds to take the medians of (default: 5)")
    parser.add_argument("--peers", type=_list, default=[], help=f"some of {_names()}, separated by commas")
    parser.add_argument("--json", type=Path, help="where to write every round (default: said at the end)")
    parser.add_argument("--page", action="store_true", help="only make the page and the picture again")
    return parser.parse_args()


def _names() -> str:
    return ",".join(peer.name for peer in PEERS)


def _list(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _print(results: Results) -> None:
    console = Console(width=None if sys.stdout.isatty() else 200)
    for make in (tables.comparison, tables.own, tables.target_table, tables.durability, tables.not_measured):
        table = make(results)
        if table.rows:
            shown = RichTable(title=table.title, title_justify="left")
            for number, column in enumerate(table.header):
                shown.add_column(column, justify="right" if number and table.numbers else "left")
            for row in table.rows:
                shown.add_row(*row)
            console.print(shown)


def _write_page() -> int:
    try:
        page.write_picture()
    except NotMeasured as reason:
        print(f"the picture is not made again: {reason}", file=sys.stderr)
    page.write_page()
    print(f"The page: {page.PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
