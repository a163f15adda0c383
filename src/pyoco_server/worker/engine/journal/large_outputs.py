"""Outputs above VALUE_LIMIT_BYTES (json_values.py), which do not fit into task records: sent in parts to the
worker, which stores them."""

from collections.abc import Callable

from pyoco_server.worker.ipc.protocol import OutputPart

# As the parts of a stored object.
_PART_BYTES = 128 * 1024


class LargeOutputs:
    """The large outputs of a run that has ended. None is copied before it is sent."""

    def __init__(self, send: Callable[[OutputPart], None], *, max_bytes: int) -> None:
        """`max_bytes` limits one of them; 0: none is stored."""
        self._send = send
        self._max_bytes = max_bytes
        self._kept: dict[str, tuple[memoryview, bool]] = {}

    @property
    def enabled(self) -> bool:
        return self._max_bytes > 0

    def keep(self, task: str, content: memoryview, *, is_bytes: bool) -> str | None:
        """Keep it to be sent; why it is not stored, if it is too large."""
        size = content.nbytes
        if size > self._max_bytes:
            return f"it takes {size} bytes, and PYOCO_RESULT_MAX_BYTES={self._max_bytes}"
        self._kept[task] = content, is_bytes
        return None

    def send_all(self) -> None:
        """Returns when the worker has taken all of them."""
        for task, (content, is_bytes) in self._kept.items():
            for begin in range(0, content.nbytes, _PART_BYTES):
                end = begin + _PART_BYTES
                self._send(
                    OutputPart(
                        task=task,
                        data=bytes(content[begin:end]),
                        is_bytes=is_bytes,
                        is_last=end >= content.nbytes,
                    )
                )
        self._kept.clear()
