"""Flows that return values of every kind and size."""

from typing import Any

from pyoco import Flow, task

from pyoco_server import task_options

VALUES: dict[str, Any] = {
    "no bytes": b"",
    "no text": "",
    "none": None,
    "bytes": b"\x00\xff",
    "numbers": [1.0, float("nan")],
    "object": {"a": [1, {"b": "ä"}]},
    "byte array": bytearray(b"abc"),
}


@task
def give(kind: str = "object") -> Any:
    return VALUES[kind]


@task
def give_bytes(size: int) -> bytes:
    return bytes(range(256)) * (size // 256) + b"x" * (size % 256)


@task
def give_text(size: int) -> str:
    return "ä" * size


@task_options(result=True)
@task
def wanted() -> str:
    return "wanted"


@task
def later(wanted: str) -> str:
    return f"after {wanted}"


@task
def load_text(size: int) -> str:
    return "x" * size


@task
def fail_with(load_text: str) -> None:
    raise ValueError(f"it has {len(load_text)} characters")


returning = Flow(name="returning") >> give
returning_bytes = Flow(name="returning-bytes") >> give_bytes
returning_text = Flow(name="returning-text") >> give_text
returning_the_first = Flow(name="returning-the-first") >> wanted >> later
failing_after_text = Flow(name="failing-after-text") >> load_text >> fail_with
