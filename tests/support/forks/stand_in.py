"""Stands for an installed program in a shell whose commands are forks (fork_server.py), or for Python itself.

A copy of this file is in a folder of the PATH under the name of each program. It runs without `site`, and
starts in a small part of the time that the program takes. It hands arguments, environment, working directory
and files to the fork server, passes on the signals that it gets, and ends as the program does. When it is
killed, the program is killed as well.

The program has a session of its own: a signal to the process group of the shell reaches it once, from here.
What differs from a program that was installed: SIGSTOP does not stop it, and it has no controlling terminal.
"""

import json
import os
import signal
import socket
import sys
from typing import Any, Final, NoReturn

# Besides the copies of this file.
SOCKET: Final = "fork-server"
INTERPRETER: Final = "python-of-forks"
MODULES: Final = {
    "pyoco-server": "pyoco_server.cli.server.server_command",
    "pyoco-worker": "pyoco_server.cli.worker_command",
    "pyoco-client": "pyoco_server.cli.client_command",
    "pyoco-server-admin": "pyoco_server.admin_cli",
}
_PASSED_ON: Final = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_STATUS_BYTES: Final = 4


def main() -> NoReturn:
    folder, program = os.path.split(sys.argv[0])
    if program != INTERPRETER:
        _run(folder, MODULES[program], sys.argv[1:], import_folder=os.path.dirname(sys.executable))
    if sys.argv[1] == "-m" and sys.argv[2] in MODULES.values():
        _run(folder, sys.argv[2], sys.argv[3:], import_folder=os.getcwd())
    # Such as a guard of NATS, or pip.
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])


def _run(folder: str, module: str, arguments: list[str], *, import_folder: str) -> NoReturn:
    """`import_folder` is the first place of its imports."""
    files = [fd for fd in map(int, os.listdir("/dev/fd")) if _is_inherited(fd)]
    handlers = {number: signal.getsignal(number) for number in _PASSED_ON}
    request: dict[str, Any] = {
        "module": module,
        "arguments": arguments,
        "cwd": os.getcwd(),
        "env": dict(os.environ),
        "targets": files,
        "import_folder": import_folder,
        "interpreter": f"{folder}/{INTERPRETER}",
        # By a shell that starts it in the background.
        "ignored_signals": [number for number, handler in handlers.items() if handler is signal.SIG_IGN],
    }
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(f"{folder}/{SOCKET}")
    socket.send_fds(connection, [json.dumps(request).encode()], files)
    for number, handler in handlers.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: connection.sendall(bytes([number])))
    status = connection.recv(_STATUS_BYTES)
    if not status:
        sys.exit("the fork server has ended")
    code = int.from_bytes(status, "big", signed=True)
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


def _is_inherited(fd: int) -> bool:
    try:
        return os.get_inheritable(fd)
    except OSError:  # that of the folder in which it was found
        return False


if __name__ == "__main__":
    main()
