"""As for the tests of workers."""

from tests.unit.worker.conftest import working_directory

__all__ = ["working_directory"]
