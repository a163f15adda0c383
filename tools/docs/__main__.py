"""Write the generated parts of docs/, or with --check report the pages that differ."""

import argparse
import sys
from pathlib import Path

from tools.docs.pages import PAGES
from tools.docs.render import render_page

DOCS = Path(__file__).parents[2] / "docs"


def outdated_pages() -> dict[Path, str]:
    """The pages whose generated parts differ from the code, each with the text it should have."""
    rendered = {DOCS / name: render_page(DOCS / name, blocks()) for name, blocks in PAGES.items()}
    return {path: text for path, text in rendered.items() if text != path.read_text(encoding="utf-8")}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.docs", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 on a difference")
    check_only = parser.parse_args().check
    outdated = outdated_pages()
    for path, text in outdated.items():
        if not check_only:
            path.write_text(text, encoding="utf-8")
        print(f"{path.relative_to(DOCS.parent)}: {'outdated, run `make docs`' if check_only else 'written'}")
    return 1 if check_only and outdated else 0


if __name__ == "__main__":
    sys.exit(main())
