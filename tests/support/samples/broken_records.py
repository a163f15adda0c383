"""Variants of a stored JSON record that are wrong in one way each."""

import json
import random
from typing import Any, Final

DEEP: Final = 5_000
# For any field; most of them are wrong for most fields.
VALUES: Final[tuple[bytes, ...]] = (
    b"null",
    b"true",
    b"-1",
    b"-1e300",
    b"1e300",
    b"1e999",
    b"NaN",
    b"Infinity",
    b"1" + b"0" * 30,
    b"9" * 5_000,
    b'""',
    b'"\\u0000"',
    b'"\\ud800"',
    b'"\\udc00x"',
    b'"\xff"',
    b'"\xed\xa0\x80"',
    b'"<script>"',
    b'"' + b"x" * 5_000 + b'"',
    b"[]",
    b"{}",
    b"[{}, 1, null]",
    b'{"": {"a": [1e999]}}',
    b"[" * DEEP + b"]" * DEEP,
    b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    # As deep as a decoder can just read, and an encoder with a deeper stack cannot write.
    b"[" * 950 + b"]" * 950,
)


def broken_variants(record: dict[str, Any], rng: random.Random, *, per_field: int = 2) -> dict[str, bytes]:
    """By the way in which each is wrong; some may be valid after all."""
    whole = json.dumps(record).encode()
    found = {
        "empty": b"",
        "text": b"this is not JSON",
        "null": b"null",
        "list": b"[]",
        "half": whole[: len(whole) // 2],
        "utf16": whole.decode().encode("utf-16"),
        "twice": whole + whole,
        "bytes": rng.randbytes(200),
    }
    for number, value in enumerate(VALUES):
        found[f"more-{number}"] = with_field(record, "unknown_field", value)
    for name in record:
        for value in rng.sample(VALUES, per_field):
            found[f"{name}={value[:20].decode(errors='replace')}"] = with_field(record, name, value)
        found[f"without {name}"] = json.dumps({key: record[key] for key in record if key != name}).encode()
    for number in range(5):
        flipped = bytearray(whole)
        flipped[rng.randrange(len(flipped))] = rng.randrange(256)
        found[f"flipped-{number}"] = bytes(flipped)
    return found


def with_field(record: dict[str, Any], name: str, value: bytes) -> bytes:
    """The record as JSON, with this JSON as the value of one field."""
    rest = json.dumps({key: record[key] for key in record if key != name}).encode()
    return rest[:-1] + b', "' + name.encode() + b'": ' + value + b"}"
