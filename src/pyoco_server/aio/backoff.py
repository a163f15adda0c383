"""A delay that doubles with each failure in a row."""


class Backoff:
    def __init__(self, first_sec: float, longest_sec: float) -> None:
        self._first_sec = first_sec
        self._longest_sec = longest_sec
        self._next_sec = first_sec

    def next_sec(self) -> float:
        """The delay after one more failure."""
        delay_sec = self._next_sec
        self._next_sec = min(2 * delay_sec, self._longest_sec)
        return delay_sec

    def reset(self) -> None:
        """Something went well."""
        self._next_sec = self._first_sec
