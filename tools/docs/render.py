"""Generated blocks of a Markdown page, and Markdown tables.

A page marks where a block goes; what is between the two markers is replaced:

    <!-- generated: errors (make docs) -->
    ...
    <!-- end: errors -->
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

_BLOCK = re.compile(
    r"(?P<begin><!-- generated: (?P<name>[^\n]+?) \(make docs\) -->\n).*?(?P<end><!-- end: (?P=name) -->\n)",
    re.DOTALL,
)


def render_page(path: Path, blocks: Mapping[str, str]) -> str:
    """The page's text with the given blocks. Each marker needs its block, and each block its marker."""
    page = path.read_text(encoding="utf-8")
    marked = [found["name"] for found in _BLOCK.finditer(page)]
    if sorted(marked) != sorted(blocks):
        lacking, unknown = sorted(set(blocks) - set(marked)), sorted(set(marked) - set(blocks))
        raise ValueError(f"{path.name}: no marker for {lacking}, no block for {unknown}, marked: {marked}")
    return _BLOCK.sub(
        lambda found: f"{found['begin']}\n{blocks[found['name']].strip()}\n\n{found['end']}", page
    )


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(map(_cell, cells)) + " |" for cells in (header, *rows)]
    return "\n".join([lines[0], "|---" * len(header) + "|", *lines[1:]])


def _cell(value: object) -> str:
    return "" if value is None else str(value).replace("|", "\\|").replace("\n", " ")
