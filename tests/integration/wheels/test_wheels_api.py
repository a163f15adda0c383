"""The wheel registry over HTTP."""

import asyncio
import hashlib
import io
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from pyoco_server.broker.jetstream.object_store import CHUNK_BYTES
from pyoco_server.broker.jetstream.stream_reads import stream_state
from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.routes.workers import wheel_routes as wheels
from pyoco_server.http_client import AsyncPyocoHttpClient
from tests.support.broker.nats_server import NatsServer
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.samples.wheel_uploads import registered, upload
from tests.support.samples.wheels import wheel_bytes
from tests.support.waiting import LIMIT_SEC, eventually

NAME = "greetings-0.1.0-py3-none-any.whl"
# Large enough for a temporary file.
CUT_OFF = f'--x\r\nContent-Disposition: form-data; name="wheel"; filename="{NAME}"\r\n\r\n'.encode() + bytes(
    2**21
)


async def names(gateway: RunningGateway) -> list[str]:
    response = await gateway.http.get("/wheels")
    assert response.status_code == 200, response.text
    return [wheel["name"] for wheel in response.json()]


async def chunks_of(gateway: RunningGateway) -> dict[str, int]:
    """How many chunks are stored, by object."""
    state = await stream_state(gateway.inside.connection, "OBJ_pyoco_wheels", subjects="$O.pyoco_wheels.C.>")
    return state.subjects


def problem(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["err_id"]


def large_wheel(size: int = 5 * CHUNK_BYTES + 77) -> bytes:
    noise = b"".join(hashlib.sha512(b"%d" % number).digest() for number in range(size // 64 + 1))
    return wheel_bytes(files={"data.bin": noise[:size]})


async def test_a_wheel_is_registered_listed_downloaded_and_deleted(gateway: RunningGateway) -> None:
    assert await names(gateway) == []
    assert (await gateway.http.get("/wheels/history")).json() == []
    content = large_wheel()
    before = time.time() - 1
    reported = await registered(gateway, content=content, tags="cpu, linux,cpu")
    assert reported == {
        "name": NAME,
        "size_bytes": len(content),
        "bucket": "pyoco_wheels",
        "nuid": reported["nuid"],
        "modified": reported["modified"],
        "sha256_hex": hashlib.sha256(content).hexdigest(),
        "tags": ["cpu", "linux"],
    }
    assert before < reported["modified"] < time.time() + 1
    [listed] = (await gateway.http.get("/wheels")).json()
    assert listed == {**reported, "modified": listed["modified"]}
    download = await gateway.http.get(f"/wheels/{NAME}")
    assert (download.status_code, download.content) == (200, content)
    assert download.headers["content-type"] == "application/octet-stream"
    assert download.headers["content-disposition"] == f'attachment; filename="{NAME}"'
    gone = await gateway.http.delete(f"/wheels/{NAME}")
    assert gone.json() == {"name": NAME, "deleted": True}
    assert await names(gateway) == []
    assert await chunks_of(gateway) == {}
    for method in ("GET", "DELETE"):
        assert problem(await gateway.http.request(method, f"/wheels/{NAME}")) == (404, "ERR-PYOCO-0023")


async def test_other_nats_tools_read_our_wheels_and_their_objects_are_no_wheels(
    gateway: RunningGateway,
) -> None:
    store = await gateway.inside.connection.client.jetstream().object_store("pyoco_wheels")
    await store.put("notes.txt", b"not a wheel")
    content = large_wheel()
    await registered(gateway, content=content)
    target = io.BytesIO()
    await store.get(NAME, writeinto=target)
    assert target.getvalue() == content
    assert await names(gateway) == [NAME]
    assert problem(await gateway.http.delete("/wheels/notes.txt")) == (404, "ERR-PYOCO-0023")


async def test_a_range_is_what_was_asked_for(gateway: RunningGateway) -> None:
    content = large_wheel()
    # In turns, so that neither has its chunks in a row.
    await asyncio.gather(
        registered(gateway, content=content),
        registered(
            gateway, "other", content=wheel_bytes("other", files={"o.bin": content[: 3 * CHUNK_BYTES]})
        ),
    )
    for asked, start, stop in (
        ("bytes=0-0", 0, 1),
        ("bytes=5-9", 5, 10),
        (f"bytes={CHUNK_BYTES - 1}-{CHUNK_BYTES}", CHUNK_BYTES - 1, CHUNK_BYTES + 1),
        (f"bytes={4 * CHUNK_BYTES + 3}-", 4 * CHUNK_BYTES + 3, None),
        ("bytes=-10", -10, None),
        ("bytes=7-99999999999", 7, None),
        ("Bytes = 7 - 8", 7, 9),
    ):
        part = await gateway.http.get(f"/wheels/{NAME}", headers={"Range": asked})
        expected = content[start:stop]
        assert (part.status_code, part.content == expected) == (206, True), asked
        first = start % len(content)
        assert part.headers["content-range"] == f"bytes {first}-{first + len(expected) - 1}/{len(content)}"
        assert part.headers["content-length"] == str(len(expected))
    # Several or invalid ranges return the whole file.
    for unclear in ("bytes=1-2,5-6", "lines=1-2", "bytes=", "bytes=-", "bytes=9-3", "x"):
        response = await gateway.http.get(f"/wheels/{NAME}", headers={"Range": unclear})
        assert (response.status_code, response.content == content) == (200, True), unclear


async def test_a_range_after_the_end_is_rejected_and_a_changed_file_is_sent_whole(
    gateway: RunningGateway,
) -> None:
    await registered(gateway)
    size = len(wheel_bytes())
    for beyond in (f"bytes={size}-", "bytes=-0"):
        refused = await gateway.http.get(f"/wheels/{NAME}", headers={"Range": beyond})
        assert problem(refused) == (416, "ERR-PYOCO-0002")
        assert refused.headers["content-range"] == f"bytes */{size}"
    tag = (await gateway.http.get(f"/wheels/{NAME}")).headers["etag"]
    for known, status in ((tag, 206), ('"another"', 200)):
        response = await gateway.http.get(f"/wheels/{NAME}", headers={"Range": "bytes=1-", "If-Range": known})
        assert response.status_code == status


async def test_a_version_that_is_not_newer_is_rejected(gateway: RunningGateway) -> None:
    for first, second in (
        (("same", "0.1.0"), ("same", "0.1.0")),
        (("tenth", "0.10.0"), ("tenth", "0.9.0")),
        (("candidate", "1.0"), ("candidate", "1.0rc1")),
        (("zeros", "1.0"), ("zeros", "1.0.0")),
        (("epoch", "2!1.0"), ("epoch", "9.0")),
        (("my_tools", "1.0"), ("My.Tools", "1.0")),
    ):
        await registered(gateway, *first)
        refused = await upload(gateway, *second, replace="true")
        assert problem(refused) == (409, "ERR-PYOCO-0022"), second
        assert first[1] in refused.json()["detail"]
    assert len(await names(gateway)) == 6
    assert len(await chunks_of(gateway)) == 6


async def test_versions_go_up_and_packages_do_not_disturb_each_other(gateway: RunningGateway) -> None:
    for name, version in (("b", "1.0rc1"), ("b", "1.0"), ("a", "0.1"), ("b", "1.0.post1"), ("a", "0.10")):
        await registered(gateway, name, version)
    assert [each.split("-py3")[0] for each in await names(gateway)] == [
        *("a-0.1", "a-0.10"),
        *("b-1.0rc1", "b-1.0", "b-1.0.post1"),
    ]
    # What was deleted does not count any more.
    await gateway.http.delete("/wheels/a-0.10-py3-none-any.whl")
    again = await registered(gateway, "a", "0.10")
    assert again["name"] == "a-0.10-py3-none-any.whl"


async def test_of_two_concurrent_uploads_one_is_rejected(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    async with running_gateway(config) as second:
        for number in range(5):
            version = f"0.{number + 1}.0"
            responses = await asyncio.gather(
                upload(gateway, version=version),
                upload(second, version=version, platform="py2.py3-none-any"),
                upload(second, f"other{number}", version),
            )
            assert sorted(response.status_code for response in responses[:2]) == [200, 409]
            assert responses[2].status_code == 200, responses[2].text
    assert len(await names(gateway)) == 10
    assert len(await chunks_of(gateway)) == 10


# Invalid uploads


@pytest.mark.parametrize(
    ("file_name", "content", "hint"),
    [
        ("greetings.zip", wheel_bytes(), "expected a wheel's own name"),
        ("", wheel_bytes(), "the file is missing"),
        ("greetings-0.2.0-py3-none-any.whl", wheel_bytes(version="0.1.0"), "must not be renamed"),
    ],
)
async def test_a_file_that_is_not_the_wheel_of_its_name_is_rejected(
    gateway: RunningGateway, file_name: str, content: bytes, hint: str
) -> None:
    response = await gateway.http.post("/wheels", files={"wheel": (file_name, content)})
    assert problem(response) == (422, "ERR-PYOCO-0002")
    [error] = response.json()["errors"]
    assert (error["field"], hint in error["message"]) == ("wheel", True)
    assert error.get("value") in (None, repr(file_name))
    assert await chunks_of(gateway) == {}


async def test_an_invalid_field_is_named(gateway: RunningGateway) -> None:
    for field, value in (
        ("tags", "a.b"),
        ("tags", ",".join(f"t{number}" for number in range(51))),
        ("replace", "perhaps"),
        ("color", "red"),
    ):
        wheel = {"wheel": (NAME, wheel_bytes())}
        response = await gateway.http.post("/wheels", files=wheel, data={field: value})
        assert problem(response) == (422, "ERR-PYOCO-0002"), value
        assert [error["field"] for error in response.json()["errors"]] == [field]
    assert await names(gateway) == []


async def test_a_form_without_exactly_one_wheel_is_rejected(gateway: RunningGateway) -> None:
    one = ("wheel", (NAME, wheel_bytes()))
    for body in (
        {"content": wheel_bytes()},
        {"data": {"wheel": "text"}, "files": {}},
        {"files": [("workflow", (NAME, wheel_bytes()))]},
        {"files": [one, one]},
        {"content": b"--x\r\n", "headers": {"content-type": "multipart/form-data; boundary=x"}},
        {"content": CUT_OFF, "headers": {"content-type": "multipart/form-data; boundary=x"}},
    ):
        response = await gateway.http.post("/wheels", **body)
        assert problem(response) == (422, "ERR-PYOCO-0002"), body


async def test_a_wheel_over_the_limit_is_rejected_while_it_is_read(
    config: NatsBackendConfig,
) -> None:
    sent = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal sent
        yield f'--x\r\nContent-Disposition: form-data; name="wheel"; filename="{NAME}"\r\n\r\n'.encode()
        while sent < 4 * 1024**3:
            sent += 1024 * 1024
            yield bytes(1024 * 1024)

    async with running_gateway(replace(config, wheel_max_bytes=1024 * 1024)) as gateway:
        head = {"content-type": "multipart/form-data; boundary=x"}
        try:
            response = await gateway.http.post("/wheels", content=body(), headers=head)
        except (httpx.WriteError, httpx.ReadError, httpx.RemoteProtocolError):
            # The server has closed the connection.
            response = None
        assert sent < 512 * 1024 * 1024
        if response is not None:
            assert problem(response) == (413, "ERR-PYOCO-0002")
        exactly = wheel_bytes(files={"data.bin": b""})
        small = replace(config, wheel_max_bytes=len(exactly))
    async with running_gateway(small) as gateway:
        assert (await upload(gateway, content=exactly)).status_code == 200
        refused = await upload(gateway, version="0.2.0", content=exactly + b"\0")
        assert problem(refused) == (413, "ERR-PYOCO-0002")
        assert "PYOCO_WHEEL_MAX_BYTES" in refused.json()["detail"]
        assert [error["field"] for error in refused.json()["errors"]] == ["wheel"]


async def never_ending() -> AsyncIterator[bytes]:
    """The beginning of an upload, and no more."""
    yield CUT_OFF[:1000]
    await asyncio.Event().wait()


FORM = {"content-type": "multipart/form-data; boundary=x"}


async def test_uploads_over_the_limit_are_rejected_until_a_slot_is_free(
    gateway: RunningGateway,
) -> None:
    uploads = gateway.inside.wheels.uploads
    slow = [
        asyncio.create_task(gateway.http.post("/wheels", content=never_ending(), headers=FORM))
        for _ in range(4)
    ]
    await eventually(uploads.locked, describe="four uploads are under way")
    try:
        async with asyncio.timeout(LIMIT_SEC):
            busy = await upload(gateway)
    finally:
        for task in slow:
            task.cancel()
        await asyncio.wait(slow)
    assert problem(busy) == (503, "ERR-PYOCO-0042")
    assert busy.headers["retry-after"] == "10"
    await eventually(lambda: not uploads.locked(), describe="those who left made room")
    await registered(gateway)


async def test_an_upload_that_takes_too_long_gives_its_place_back(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheels, "_UPLOAD_SEC", 0.3)
    url = gateway.http.base_url
    # Not by httpx, which reads no answer before it has sent everything.
    reader, writer = await asyncio.open_connection(url.host, url.port)
    head = "POST /wheels HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n"
    writer.write(f"{head}Content-Type: {FORM['content-type']}\r\n\r\n".encode() + CUT_OFF[:1000])
    async with asyncio.timeout(LIMIT_SEC):
        response = (await reader.read()).decode()
    writer.close()
    assert response.startswith("HTTP/1.1 422 ")
    assert "the body did not come within 0.3 s" in response
    assert "connection: close" in response.lower()


async def test_only_the_head_of_a_download(gateway: RunningGateway) -> None:
    content = large_wheel()
    reported = await registered(gateway, content=content)
    head = await gateway.http.head(f"/wheels/{NAME}")
    assert (head.status_code, head.content) == (200, b"")
    whole = await gateway.http.get(f"/wheels/{NAME}")
    for name in ("content-length", "content-type", "content-disposition", "accept-ranges", "etag"):
        assert head.headers[name] == whole.headers[name]
    assert head.headers["etag"] == f'"{reported["nuid"]}"'
    part = await gateway.http.head(f"/wheels/{NAME}", headers={"Range": "bytes=10-19"})
    assert (part.status_code, part.headers["content-length"]) == (206, "10")
    assert (await gateway.http.head("/wheels/none-1-py3-none-any.whl")).status_code == 404
    health = await gateway.http.head("/health")
    assert (health.status_code, health.content) == (200, b"")


async def test_a_download_of_a_deleted_wheel_is_cut_off_with_one_log_line(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await registered(gateway, content=large_wheel())
    read = gateway.inside.wheels.registry.read

    async def cut_off(*args: Any, **options: Any) -> AsyncIterator[bytes]:
        yield await anext(read(*args, **options))
        raise gateway.inside.connection.unavailable("it is incomplete: it was deleted")

    monkeypatch.setattr(gateway.inside.wheels.registry, "read", cut_off)
    with pytest.raises(httpx.RemoteProtocolError):
        await gateway.http.get(f"/wheels/{NAME}")
    ours = [record for record in caplog.records if record.name.startswith("pyoco_server")]
    assert [
        record.getMessage().partition(":")[0] for record in ours if "download" in record.getMessage()
    ] == [f"the download of {NAME} was cut off"]
    assert [record for record in caplog.records if record.exc_info] == []


async def test_the_history_reports_who_did_what_from_where(gateway: RunningGateway) -> None:
    first = await registered(gateway, tags="gpu")
    heads = {
        "X-Forwarded-For": "203.0.113.7, 10.0.0.1",
        "X-Real-IP": "203.0.113.7",
        "User-Agent": "u" * 2000,
    }
    await gateway.http.delete(f"/wheels/{NAME}", headers=heads)
    await registered(gateway, "other", replace="false")
    third, second, oldest = (await gateway.http.get("/wheels/history")).json()
    assert [event["action"] for event in (third, second, oldest)] == ["upload", "delete", "upload"]
    assert len({event["event_id"] for event in (third, second, oldest)}) == 3
    assert third["occurred_at"] >= second["occurred_at"] >= oldest["occurred_at"]
    assert (oldest["replace"], second["replace"], third["replace"]) == (True, None, False)
    for event in (oldest, second):
        assert (event["wheel_name"], event["tags"]) == (NAME, ["gpu"])
        assert (event["size_bytes"], event["sha256_hex"]) == (first["size_bytes"], first["sha256_hex"])
        assert event["actor"] == {"tenant_id": None, "api_key_id": None}
    assert second["source"] == {
        "remote_addr": "127.0.0.1",
        "x_forwarded_for": "203.0.113.7, 10.0.0.1",
        "x_real_ip": "203.0.113.7",
        "user_agent": "u" * 500,
        "host": str(gateway.http.base_url.netloc, "ascii"),
        "scheme": "http",
    }


async def test_the_history_is_filtered(gateway: RunningGateway) -> None:
    for number in range(3):
        await registered(gateway, version=f"0.{number}")
    await gateway.http.delete("/wheels/greetings-0.1-py3-none-any.whl")

    async def reported(**query: Any) -> list[tuple[str, str]]:
        response = await gateway.http.get("/wheels/history", params=query)
        return [(event["action"], event["wheel_name"].split("-")[1]) for event in response.json()]

    assert await reported(limit=2) == [("delete", "0.1"), ("upload", "0.2")]
    assert await reported(action="upload") == [("upload", "0.2"), ("upload", "0.1"), ("upload", "0.0")]
    assert await reported(wheel_name="greetings-0.1-py3-none-any.whl") == [
        ("delete", "0.1"),
        ("upload", "0.1"),
    ]
    assert await reported(wheel_name="greetings-0.1-py3-none-any.whl", action="delete") == [("delete", "0.1")]
    for query, field in (
        ("limit=0", "limit"),
        ("limit=501", "limit"),
        ("limit=many", "limit"),
        ("action=rename", "action"),
        ("wheel_name=notes.txt", "wheel_name"),
        ("wheel_name=", "wheel_name"),
        ("color=red", "color"),
    ):
        response = await gateway.http.get(f"/wheels/history?{query}")
        assert problem(response) == (422, "ERR-PYOCO-0002"), query
        assert [error["field"] for error in response.json()["errors"]] == [field]


async def test_without_nats_the_error_says_so(config: NatsBackendConfig, own_nats: NatsServer) -> None:
    async with running_gateway(replace(config, nats_url=own_nats.url)) as gateway:
        own_nats.stop()
        responses = [
            await gateway.http.get("/wheels"),
            await gateway.http.get("/wheels/history"),
            await upload(gateway),
            await gateway.http.get(f"/wheels/{NAME}"),
            await gateway.http.delete(f"/wheels/{NAME}"),
        ]
        assert {problem(response) for response in responses} == {(503, "ERR-PYOCO-0003")}


async def test_a_short_outage_does_not_end_an_upload(config: NatsBackendConfig, own_nats: NatsServer) -> None:
    content = large_wheel(200 * CHUNK_BYTES)
    async with running_gateway(replace(config, nats_url=own_nats.url)) as gateway:
        store = gateway.inside.wheels.registry._store
        stored = store._store_chunk

        async def with_an_outage(nuid: str, number: int, chunk: bytes) -> None:
            if number == 50:
                await asyncio.to_thread(own_nats.restart)
            await stored(nuid, number, chunk)

        store._store_chunk = with_an_outage  # type: ignore[method-assign]
        reported = await registered(gateway, content=content)
        assert reported["sha256_hex"] == hashlib.sha256(content).hexdigest()
        assert (await gateway.http.get(f"/wheels/{NAME}")).content == content


async def test_the_client_library(gateway: RunningGateway, tmp_path: Any) -> None:
    content = large_wheel()
    (tmp_path / NAME).write_bytes(content)
    progress: list[tuple[int, int]] = []
    async with AsyncPyocoHttpClient(str(gateway.http.base_url)) as client:
        reported = await client.upload_wheel(
            tmp_path / NAME, tags=["a", "b"], on_progress=lambda done, of: progress.append((done, of))
        )
        assert reported["tags"] == ["a", "b"]
        assert progress[-1] == (len(content), len(content))
        assert [wheel["name"] for wheel in await client.list_wheels()] == [NAME]
        target = io.BytesIO()
        assert await client.download_wheel(NAME, target) == len(content)
        assert target.getvalue() == content
        assert (await client.delete_wheel(NAME))["deleted"]
        assert [event["action"] for event in await client.wheel_history(5)] == ["delete", "upload"]
