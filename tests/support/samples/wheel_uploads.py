"""Uploading wheels, and reading what a worker installed."""

from typing import Any

import httpx

from tests.support.broker.worker_records import worker
from tests.support.running.gateway import RunningGateway
from tests.support.samples.wheels import wheel_bytes
from tests.support.waiting import eventually

HELLO = "version: 1\nflow: {graph: hello}\ntasks:\n  hello: {callable: 'greetings:hello'}\n"


def greetings(version: str, greeting: str) -> bytes:
    """A wheel with a task that returns the greeting."""
    return wheel_bytes("greetings", version, {"greetings.py": f"def hello(ctx):\n    return {greeting!r}\n"})


async def upload(
    gateway: RunningGateway,
    name: str = "greetings",
    version: str = "0.1.0",
    *,
    content: bytes | None = None,
    platform: str = "py3-none-any",
    **fields: str,
) -> httpx.Response:
    file_name = f"{name}-{version}-{platform}.whl"
    content = wheel_bytes(name, version) if content is None else content
    return await gateway.http.post("/wheels", files={"wheel": (file_name, content)}, data=fields)


async def registered(gateway: RunningGateway, *args: str, **options: Any) -> dict[str, Any]:
    answer = await upload(gateway, *args, **options)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


async def greeting(gateway: RunningGateway) -> Any:
    """What a run of the wheel's task returns now."""
    answer = await gateway.submit_yaml(HELLO)
    assert answer.status_code == 200, answer.text
    run = await gateway.ends(answer.json()["run_id"])
    assert run["status"] == "COMPLETED", run["error"]
    return run["task_records"]["hello"]["output"]


async def synced(gateway: RunningGateway, worker_id: str = "worker", **fields: Any) -> dict[str, Any]:
    """The worker's `wheel_sync` once it has these values."""

    async def there() -> dict[str, Any] | None:
        told: dict[str, Any] = (await worker(gateway, worker_id))["wheel_sync"]
        return told if {name: told[name] for name in fields} == fields else None

    return await eventually(there, describe=f"the wheels of {worker_id} have {fields}")
