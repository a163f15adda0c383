"""Which requirements of an installed wheel are missing: wheels are installed without their dependencies."""

from collections.abc import Mapping
from email.parser import HeaderParser
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

_MAX_LISTED: Final = 20
_MAX_METADATA_BYTES: Final = 1024 * 1024


def missing_requirements(folder: Path, wheels: Mapping[str, str]) -> list[str]:
    """What the wheel in this folder requires, and neither this Python nor another wheel has.

    `wheels` are the versions of the installed wheels, by package.
    """
    missing = [text for text in _requirements(folder) if not _is_met(text, wheels)]
    return missing[:_MAX_LISTED]


def _requirements(folder: Path) -> list[str]:
    for file in folder.glob("*.dist-info/METADATA"):
        with file.open(encoding="utf-8", errors="replace") as metadata:
            headers = HeaderParser().parsestr(metadata.read(_MAX_METADATA_BYTES), headersonly=True)
        return [str(text) for text in headers.get_all("Requires-Dist", [])]
    return []


def _is_met(text: str, wheels: Mapping[str, str]) -> bool:
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        # pip has installed it all the same.
        return True
    # Those of extras are optional.
    if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
        return True
    found = wheels.get(canonicalize_name(requirement.name)) or _own_version(requirement.name)
    if found is None:
        return False
    try:
        return requirement.specifier.contains(Version(found), prereleases=True)
    except InvalidVersion:
        return True


def _own_version(package: str) -> str | None:
    """Of the Python that executes the flows: the same as that of the worker."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
