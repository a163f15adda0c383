"""A histogram of durations as one integer: each bin is 32 bits of it, so that histograms are simply added.

A bin ends 9 % (2 ** (1/8)) above its beginning and counts as its geometric mean, so that a quantile differs
from the exact one by less than 4.5 %. Times below a millisecond count as half of one, times above 49 days as
49 days.
"""

import struct
from bisect import bisect_left
from itertools import accumulate
from math import ceil, log2
from typing import Final

_BITS: Final = 32
_BINS_PER_DOUBLING: Final = 8
# In milliseconds: 2 ** 32.
_LAST_BIN: Final = 32 * _BINS_PER_DOUBLING
_MASK: Final = (1 << _BITS) - 1


def bin_of(seconds: float) -> int:
    ms = seconds * 1000
    return 0 if ms < 1 else min(1 + int(log2(ms) * _BINS_PER_DOUBLING), _LAST_BIN)


def histogram(number: int) -> int:
    """Of one time, in this bin."""
    return 1 << number * _BITS


def count_in(counts: int, number: int) -> int:
    """How many times are in this bin."""
    return counts >> number * _BITS & _MASK


def packed(counts: int) -> bytes:
    """Without the empty bins at both ends."""
    if not counts:
        return b""
    first = ((counts & -counts).bit_length() - 1) // _BITS
    used = counts >> first * _BITS
    return struct.pack("<H", first) + used.to_bytes((used.bit_length() + 7) // 8, "little")


def unpacked(data: bytes) -> int:
    return int.from_bytes(data[2:], "little") << (data[0] | data[1] << 8) * _BITS if data else 0


def quantiles_ms(counts: int, *shares: float) -> list[float | None]:
    """The times that these shares of them do not exceed; None without any."""
    if not counts:
        return [None] * len(shares)
    bins = (counts.bit_length() + _BITS - 1) // _BITS
    sums = list(accumulate(struct.unpack(f"<{bins}I", counts.to_bytes(bins * 4, "little"))))
    ranks = (max(1, ceil(share * sums[-1])) for share in shares)
    return [_time_of(bisect_left(sums, rank)) for rank in ranks]


def _time_of(number: int) -> float:
    return 0.5 if number == 0 else round(float(2 ** ((number - 0.5) / _BINS_PER_DOUBLING)), 3)
