"""Where the project's files are."""

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
EXAMPLES: Final = ROOT / "examples"
FLOWS: Final = ROOT / "tests" / "flows"
