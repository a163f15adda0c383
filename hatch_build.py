"""Builds the dashboard into the package before it is packed, where Node is there to build it.

Without Node the package is complete but for the dashboard: `GET /` then says how to get it. A source
distribution has the built dashboard, so that whoever installs from it needs no Node.
"""

import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILT = Path("src/pyoco_server/dashboard/index.html")
SOURCES = Path("ui")
NOT_SOURCES = ("node_modules", "schema.d.ts", "dist")


class DashboardBuild(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        # In a working tree `make` builds it.
        if version == "editable" or self._is_built():
            return
        npm = shutil.which("npm")
        if npm is None:
            self.app.display_warning("npm was not found: the package is built without the dashboard")
            return
        try:
            for command in (["install", "--no-save"], ["run", "build"]):
                subprocess.run([npm, *command], cwd=Path(self.root) / SOURCES, check=True)
        except subprocess.CalledProcessError as error:
            self.app.display_warning(f"{error}: the package is built without the dashboard")

    def _is_built(self) -> bool:
        built = Path(self.root) / BUILT
        if not built.is_file():
            return False
        sources = (path for path in (Path(self.root) / SOURCES).rglob("*") if path.is_file())
        ours = (path for path in sources if not any(part in NOT_SOURCES for part in path.parts))
        return all(path.stat().st_mtime <= built.stat().st_mtime for path in ours)
