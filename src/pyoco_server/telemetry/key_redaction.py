"""Hides API keys in texts that leave the process: log lines, error responses, dead letters, metrics, traces.

A key gets there when someone sends it in the wrong place, such as the path of a request. Its id stays, so
that the key can be found and revoked. The beginning of a key is hidden too: messages shorten long values.
"""

import re
from typing import Final

from pyoco_server.config.setting import REDACTED

# A key of the public package has a dot, another alphabet, and an id of 24 digits.
_KEY: Final = r"(pyoco_(?:[0-9a-fA-F]{16}|[0-9a-fA-F]{24})(?:_|(\.)))(?(2)[0-9a-zA-Z_-]{4,}|[0-9a-fA-F]{4,})"
_SHOWN: Final = rf"\g<1>{REDACTED}"
_IN_TEXT: Final = re.compile(_KEY)
_IN_BYTES: Final = re.compile(_KEY.encode())
_SHOWN_BYTES: Final = _SHOWN.encode()


def redact_keys(text: str) -> str:
    return _IN_TEXT.sub(_SHOWN, text)


def redact_keys_in(data: bytes) -> bytes:
    """The same in an encoded record."""
    return _IN_BYTES.sub(_SHOWN_BYTES, data)
