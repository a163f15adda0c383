"""A real nats-server for tests: with one JetStream account per test, or killed and restarted by one test."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyoco_server.broker.embedded.embedded_server import find_nats_server
from pyoco_server.broker.embedded.server_guard import guarded_command
from tests.support.ports import port_to_keep
from tests.support.waiting import LIMIT_SEC, eventually_sync


@dataclass(frozen=True)
class _Started:
    process: subprocess.Popen[bytes]
    lifeline: int


class NatsServer:
    """A server that keeps its port and its data over stop, kill and restart."""

    max_file_store = 10**15

    def __init__(self, data_dir: Path, *, accounts: int = 0) -> None:
        self._data_dir = data_dir
        self._accounts = [f"t{number:04d}" for number in range(accounts)]
        self._port = port_to_keep()
        self._started: _Started | None = None
        self._jetstream = True

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        assert self._started is not None, "not running"
        return self._started.process.pid

    @property
    def account_urls(self) -> list[str]:
        """One URL per account; what is done through one of them is invisible through the others."""
        return [self.url.replace("//", f"//{name}:{name}@") for name in self._accounts]

    def start(self, *, jetstream: bool = True) -> None:
        """Start, and return when clients are served (JetStream is up before that)."""
        self._jetstream = jetstream
        assert self._started is None, "already running"
        self._data_dir.mkdir(parents=True, exist_ok=True)
        for stale in self._data_dir.glob("*.ports"):  # left by a killed server
            stale.unlink()
        config_path = self._data_dir / "server.conf"
        config_path.write_text(json.dumps(self._configuration()))
        self._started = self._launch(config_path)
        eventually_sync(self._announced, describe=f"nats-server in {self._data_dir} listens")

    def stop(self) -> None:
        """End it as an administrator would."""
        self._end(subprocess.Popen.terminate)

    def kill(self) -> None:
        """End it as a power failure would."""
        self._end(subprocess.Popen.kill)

    def remove_store(self) -> None:
        """Remove what was stored, and keep the log. It must not be running."""
        assert self._started is None, "still running"
        shutil.rmtree(self._data_dir / "jetstream")

    def restart(self) -> None:
        """Start again on the same port and the same data, after `kill` or `stop` or without."""
        self.stop()
        self.start()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Connected to, but answering nothing: what a network that drops packets looks like."""
        self.pause()
        try:
            yield
        finally:
            self.resume()

    def pause(self) -> None:
        """Stop all its threads, and return when they have: until then it may still answer."""
        os.kill(self.pid, signal.SIGSTOP)
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), f"nats-server ended instead: {status}"

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def _end(self, how: Callable[[subprocess.Popen[bytes]], None]) -> None:
        if self._started is None:
            return
        how(self._started.process)
        self._started.process.wait(timeout=LIMIT_SEC)
        os.close(self._started.lifeline)
        self._started = None

    def _launch(self, config_path: Path) -> _Started:
        watched_by_guard, lifeline = os.pipe()
        with (self._data_dir / "server.log").open("ab") as log:
            process = subprocess.Popen(
                guarded_command(
                    [str(find_nats_server()), "--config", str(config_path)], lifeline=watched_by_guard
                ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(watched_by_guard,),
                start_new_session=True,
            )
        os.close(watched_by_guard)
        return _Started(process, lifeline)

    def _announced(self) -> bool:
        assert self._started is not None
        code = self._started.process.poll()
        assert code is None, f"nats-server ended with {code}: {(self._data_dir / 'server.log').read_text()}"
        return any(True for _ in self._data_dir.glob("*.ports"))

    def _jetstream_options(self) -> dict[str, object]:
        # Each account's dead-letter stream reserves 512 MiB; together they would use up a real disk.
        return {"store_dir": str(self._data_dir), "max_file_store": self.max_file_store}

    def _configuration(self) -> dict[str, object]:
        return {
            "server_name": "pyoco-tests",
            "listen": f"127.0.0.1:{self._port}",
            "ports_file_dir": str(self._data_dir),
            "jetstream": self._jetstream_options() if self._jetstream else False,
            "accounts": {
                name: {"jetstream": "enabled", "users": [{"user": name, "password": name}]}
                for name in self._accounts
            },
        }


class SecuredNats(NatsServer):
    """With users, accounts or TLS: `options` replace parts of the usual configuration."""

    def __init__(self, data_dir: Path, **options: Any) -> None:
        super().__init__(data_dir)
        self._options = options

    def _configuration(self) -> dict[str, object]:
        return {**super()._configuration(), **self._options}
