"""What an installed wheel requires and is not there."""

from pathlib import Path

import pytest

from pyoco_server.wheels.wheel_dependencies import missing_requirements


def installed(folder: Path, *requirements: str) -> Path:
    info = folder / "shop-1.0.dist-info"
    info.mkdir()
    lines = ["Metadata-Version: 2.1", "Name: shop", *(f"Requires-Dist: {each}" for each in requirements)]
    (info / "METADATA").write_text("\n".join([*lines, "", "Requires-Dist: only-in-the-description"]))
    return folder


@pytest.mark.parametrize(
    ("requirement", "is_missing"),
    [
        ("msgspec", False),
        ("MsgSpec>=0.1", False),
        ("msgspec>=999", True),
        ("no-such-package-anywhere", True),
        ("other-wheel>=2", False),
        ("Other_Wheel>=3", True),
        ('no-such-package-anywhere; extra == "test"', False),
        ('no-such-package-anywhere; python_version < "3"', False),
        ("not a requirement !", False),
    ],
)
def test_what_neither_python_nor_another_wheel_has_is_missing(
    tmp_path: Path, requirement: str, is_missing: bool
) -> None:
    folder = installed(tmp_path, requirement)
    expected = [requirement] if is_missing else []
    assert missing_requirements(folder, {"other-wheel": "2.5", "shop": "1.0"}) == expected


def test_a_wheel_without_metadata_misses_nothing(tmp_path: Path) -> None:
    assert missing_requirements(tmp_path, {}) == []
