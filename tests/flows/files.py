"""Flows that write files."""

import os
import socket
import time
from pathlib import Path
from typing import Any

from pyoco import Flow, task

FOLDER = Path("artifacts")


def contents() -> dict[str, str]:
    """The regular files of the folder."""
    files = (path for path in FOLDER.rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path.relative_to(FOLDER)): path.read_text() for path in files}


@task
def write(files: dict[str, str]) -> None:
    for name, text in files.items():
        path = FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@task
def found() -> dict[str, str]:
    return contents()


writing = Flow("writing-files") >> write >> found


@task
def save(ctx: Any, names: list[Any]) -> dict[str, str]:
    refused = {}
    for name in names:
        try:
            ctx.save_artifact(name, f"saved as {name}")
        except ValueError as error:
            refused[str(name)] = str(error)
    return refused


saving = Flow("saving-files") >> save


@task
def write_many(count: int, size: int = 10) -> None:
    for number in range(count):
        (FOLDER / f"{number:05}.bin").write_bytes(number.to_bytes(4) * (size // 4))


@task
def count_files() -> int:
    return len(list(FOLDER.iterdir()))


many = Flow("many-files") >> write_many >> count_files


@task
def write_large(size: int) -> None:
    block = os.urandom(1024 * 1024)
    with (FOLDER / "large.bin").open("wb") as file:
        for _ in range(size // len(block)):
            file.write(block)


@task
def measure() -> int:
    return (FOLDER / "large.bin").stat().st_size


large = Flow("large-file") >> write_large >> measure


@task
def write_odd(outside: str) -> None:
    """Everything that a folder can contain and that is no artifact, and one file that is."""
    (FOLDER / "good.txt").write_text("good")
    (FOLDER / "link").symlink_to(outside)
    (FOLDER / "linked_folder").symlink_to(Path(outside).parent)
    (FOLDER / "hard").hardlink_to(outside)
    (FOLDER / "twin").write_text("twin")
    (FOLDER / "twin_too").hardlink_to(FOLDER / "twin")
    os.mkfifo(FOLDER / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(FOLDER / "socket"))
    os.mknod(FOLDER / "device", 0o600 | 0o020000, os.makedev(1, 3))
    (FOLDER / "back\\slash").write_text("backslash")
    with open(os.fsencode(FOLDER) + b"/not-utf8-\xff", "w") as file:
        file.write("name")


@task
def replace_folder(outside: str) -> None:
    """The folder itself becomes a link, after something was stored from it."""
    os.rename(FOLDER, "elsewhere")
    FOLDER.symlink_to(Path(outside).parent)


odd = Flow("odd-files") >> write_odd
replaced_folder = Flow("replaced-folder") >> write >> replace_folder


@task
def first() -> None:
    (FOLDER / "first.txt").write_text("of the first task")


@task
def second(release: str) -> dict[str, str]:
    seen = contents()
    (FOLDER / "second.txt").write_text("of the second task")
    if not Path(release).exists():
        raise RuntimeError("as asked")
    return seen


failing = Flow("failing-after-files") >> first >> second


@task
def wait_for_file(ctx: Any, book: str, release: str) -> dict[str, str]:
    seen = contents()
    with Path(book).open("a") as file:
        file.write("held\n")
    while not Path(release).exists():
        time.sleep(0.01)
    return seen


holding = Flow("holding-files") >> write >> wait_for_file


@task
def write_and_ask(ctx: Any) -> dict[str, str]:
    if not (FOLDER / "before.txt").exists():
        (FOLDER / "before.txt").write_text("before the question")
    ctx.human("Go on?", name="go")
    return contents()


asking = Flow("asking-with-files") >> write_and_ask


@task
def step_and_hold(ctx: Any, book: str, release: str) -> dict[str, str]:
    ctx.step("write", lambda: (FOLDER / "step.txt").write_text("of a step"))
    with Path(book).open("a") as file:
        file.write("held\n")
    while not Path(release).exists():
        time.sleep(0.01)
    return contents()


stepping = Flow("stepping-with-files") >> first >> step_and_hold
