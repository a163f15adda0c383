"""How a command tells a script what happened."""

from typing import Final

OK: Final = 0
FAILURE: Final = 1  # a usage error, an HTTP error, a run that did not complete, a server that cannot start
INTERRUPTED: Final = 130  # Ctrl-C


class CommandFailed(Exception):
    """The command cannot do what was asked for; the text says why, and the exit code is FAILURE."""
