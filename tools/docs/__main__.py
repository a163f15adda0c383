"""Write what is generated from the code, or with --check report what differs."""

import argparse
import sys
from pathlib import Path

from tools.docs.pages import FILES, PAGES
from tools.docs.render import render_page

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def outdated_files() -> dict[Path, str]:
    """The files that differ from the code, each with the text it should have."""
    rendered = {DOCS / name: render_page(DOCS / name, blocks()) for name, blocks in PAGES.items()}
    rendered |= {ROOT / name: render() for name, render in FILES.items()}
    return {path: text for path, text in rendered.items() if text != path.read_text(encoding="utf-8")}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.docs", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 on a difference")
    check_only = parser.parse_args().check
    outdated = outdated_files()
    for path, text in outdated.items():
        if not check_only:
            path.write_text(text, encoding="utf-8")
        print(f"{path.relative_to(ROOT)}: {'outdated, run `make docs`' if check_only else 'written'}")
    return 1 if check_only and outdated else 0


if __name__ == "__main__":
    sys.exit(main())
