"""What a task can read of the worker that started it, and of other processes of the same user."""

import os
import subprocess
import sys
import textwrap
from asyncio.subprocess import create_subprocess_exec
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyoco_server.config import SETTINGS
from pyoco_server.config.process_isolation import environment_without_secrets
from pyoco_server.json_schemas.schema_checker import SchemaChecker
from pyoco_server.worker.executors import os_process
from pyoco_server.worker.executors.executor_template import ExecutorTemplate
from tests.support.places import FLOWS
from tests.support.processes import descendants, executors_of, is_alive, process_file
from tests.support.programs import SERVER, environment
from tests.support.running.executors import new_run, started_executor
from tests.support.waiting import LIMIT_SEC, eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

SECRET = "a-value-that-no-task-may-see"
SECRETS = {setting.name: SECRET for setting in SETTINGS if setting.secret} | {
    "PYOCO_NOTIFY_TARGETS": f"finance=https://127.0.0.1/{SECRET}",
    "PYOCO_NOTIFY_TARGET_SECRETS": f"finance={SECRET}",
    "AX_GOOGLE_CHAT_WEBHOOK_URL": f"https://chat.googleapis.com/v1/spaces/A/messages?key={SECRET}&token=t",
    # In the form of a key.
    "PYOCO_SECRETS_KEYS": f"{SECRET:0<43}=",
}
NOBODY = 65534


@pytest.fixture
def new_interpreters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors are started as in production, and not forked."""
    monkeypatch.setattr(os_process, "create_subprocess_exec", create_subprocess_exec)


@pytest.fixture
def inheritable_file(tmp_path: Path) -> Iterator[Path]:
    """A file that this process has open, as a service manager may have given it."""
    path = tmp_path / "of-the-worker"
    with path.open("w") as file:
        os.set_inheritable(file.fileno(), True)
        yield path


def open_files(pid: int) -> dict[int, str]:
    folder = f"/proc/{pid}/fd"
    return {int(number): os.readlink(f"{folder}/{number}") for number in os.listdir(folder)}


@pytest.mark.usefixtures("new_interpreters")
@pytest.mark.parametrize("forked", [True, False])
async def test_an_executor_and_its_children_have_no_descriptor_of_the_worker(
    tmp_path: Path, inheritable_file: Path, forked: bool
) -> None:
    flows, listing = tmp_path / "flows", tmp_path / "listing"
    flows.mkdir()
    (flows / "listing.py").write_text(
        textwrap.dedent(f"""
        import os
        from pyoco import Flow, task

        @task
        def show():
            os.system("ls /proc/self/fd > {listing}")

        flow = Flow("listing") >> show
        """)
    )
    template = ExecutorTemplate(hidden=False) if forked else None
    async with started_executor(flows, template=template) as executor:
        found = open_files(executor.started.pid)
        assert str(inheritable_file) not in found.values()
        kinds = sorted(link.partition(":")[0] for number, link in found.items() if number > 2)
        # Its folder, the read ends of its output and of the death pipe, and three sockets to the worker.
        assert [kind for kind in kinds if not kind.startswith("/")] == ["pipe"] * 3 + ["socket"] * 3
        assert len(kinds) <= 7
        assert (await executor.execute(new_run("listing"))).status == "COMPLETED"
    # The last one is the listing itself.
    assert listing.read_text().split() == ["0", "1", "2", "3"]
    if template is not None:
        await template.close()


async def test_a_process_that_checks_answers_has_neither_secrets_nor_descriptors(
    monkeypatch: pytest.MonkeyPatch, inheritable_file: Path
) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    checker = SchemaChecker()
    try:
        await checker.check("aaa", {"pattern": "^a+$"}, at="", owner="o")
        [pid] = [process._process.pid for process in checker._processes if process._process is not None]
        assert SECRET not in Path(f"/proc/{pid}/environ").read_text()
        assert sorted(open_files(pid)) == [0, 1, 2]
    finally:
        await checker.close()


@pytest.mark.parametrize("name", [*SECRETS, "PYOCO_NATS_URL", "PYOCO_NOTIFY_URL"])
def test_a_secret_setting_is_not_in_the_environment_of_a_child(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, SECRET)
    monkeypatch.setenv("PYOCO_DEFAULT_TAG", "gpu")
    found = environment_without_secrets()
    assert SECRET not in found.values()
    assert found["PYOCO_DEFAULT_TAG"] == "gpu"


READS_ITS_PARENT = """
import ctypes, os, sys
from pyoco_server.config.process_isolation import hide_process

def readable():
    pid = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            open(f"/proc/{pid}/environ", "rb").read()
            os.listdir(f"/proc/{pid}/fd")
        except PermissionError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0

if os.getuid() == 0:
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # a change of the user alone hides a process
before = readable()
hide_process()
print(before, readable())
""".replace("NOBODY", str(NOBODY))


def test_a_hidden_process_cannot_be_read_by_its_own_user() -> None:
    done = subprocess.run(
        [sys.executable, "-c", READS_ITS_PARENT],
        capture_output=True,
        text=True,
        timeout=LIMIT_SEC,
        check=False,
    )
    assert done.stdout.split() == ["True", "False"], done.stderr


def is_hidden(pid: int) -> bool:
    """The files of a hidden process belong to root, and otherwise to its user and group."""
    try:
        found = os.stat(f"/proc/{pid}/environ")
    except (FileNotFoundError, ProcessLookupError):
        return True  # it has ended
    return found.st_uid == 0 and found.st_gid == 0


@contextmanager
def dev_stack(folder: Path, **settings: str) -> Iterator[int]:
    """`pyoco-server dev` in new interpreters, with a group that is not root's: see `is_hidden`."""
    command = [sys.executable, "-m", SERVER, "dev", "--port", "0", "--nats-port", "0"]
    process = subprocess.Popen(
        [*command, "--flows", str(FLOWS), "--data-dir", str(folder / "data")],
        cwd=folder,
        env=environment(**settings),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        group=NOBODY if os.getuid() == 0 else None,
    )
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait(LIMIT_SEC)


async def test_no_process_of_the_server_shows_its_secrets_to_a_task(tmp_path: Path) -> None:
    with dev_stack(tmp_path, PYOCO_NATS_USER="user", PYOCO_SMTP_USER="user", **SECRETS) as pid:

        def executors() -> list[int]:
            assert is_alive(pid)
            return executors_of(pid)

        [executor] = await eventually(executors, describe="an executor has started")

        def showing_secrets() -> list[str]:
            with_secrets = [
                each for each in (pid, *descendants(pid)) if SECRET in process_file(each, "environ")
            ]
            assert pid in with_secrets, "the test can fail"
            return [process_file(each, "cmdline") for each in with_secrets if not is_hidden(each)]

        # A process is hidden when it has read its settings; the gateway may start after the executor.
        await eventually(lambda: not showing_secrets(), describe="every process with secrets is hidden")
        # The supervisor, NATS, gateway and worker, the guards of the last three, the template, the executor.
        await eventually(lambda: len(descendants(pid)) >= 8, describe="all of them run")
        assert SECRET not in process_file(executor, "environ")
        assert not is_hidden(executor)
