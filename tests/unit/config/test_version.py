"""The version of the package."""

from packaging.version import Version

from pyoco_server import __version__


def test_pip_does_not_take_the_public_package_for_an_upgrade() -> None:
    assert Version(__version__) > Version("0.5.1")
