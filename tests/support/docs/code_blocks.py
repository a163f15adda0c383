"""The code blocks of a page of the documentation, with the comment before each.

`<!-- excerpt: why -->` says why a block cannot run, `<!-- exit code 1 -->` that its last command fails.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_BLOCK: Final = re.compile(
    r"(?:^ *<!-- (?P<comment>[^\n]*?) -->\n+)?^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^ *```$",
    re.DOTALL | re.MULTILINE,
)
_FILE: Final = re.compile(r"# (\S+\.\w+)\n")


@dataclass(frozen=True, slots=True)
class CodeBlock:
    page: Path
    line: int
    language: str
    text: str
    # Why it does not run; None for a block that does.
    excerpt: str | None
    exit_code: int

    @property
    def place(self) -> str:
        return f"{self.page.name}:{self.line}"

    @property
    def file_name(self) -> str | None:
        """Of a block that is a file: its first line is a comment with the name."""
        found = _FILE.match(self.text)
        return None if found is None else found[1]


def code_blocks(page: Path) -> list[CodeBlock]:
    source = page.read_text(encoding="utf-8")
    return [_block(page, source, found) for found in _BLOCK.finditer(source)]


def _block(page: Path, source: str, found: re.Match[str]) -> CodeBlock:
    comment = found["comment"] or ""
    excerpt = re.fullmatch(r"excerpt: (.+)", comment)
    exit_code = re.fullmatch(r"exit code (\d+)", comment)
    indent = found["indent"]
    return CodeBlock(
        page=page,
        line=source.count("\n", 0, found.start("language")) + 1,
        language=found["language"],
        text=re.sub(rf"^{indent}", "", found["text"], flags=re.MULTILINE),
        excerpt=None if excerpt is None else excerpt[1],
        exit_code=0 if exit_code is None else int(exit_code[1]),
    )
