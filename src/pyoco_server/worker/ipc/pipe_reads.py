"""Reading the output pipes of an executor: how much is in one, and how much is read at a time."""

import fcntl
import struct
import termios

# The worker returns what it has read to the executor as one packet.
READ_BYTES = 32 * 1024


def unread_bytes(pipe: int) -> int:
    answer = fcntl.ioctl(pipe, termios.FIONREAD, struct.pack("i", 0))
    return int(struct.unpack("i", answer)[0])
