"""Validation of uploaded wheels."""

import io
import stat
import struct
import zipfile
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyoco_server.wheels.wheel_inspection import InvalidWheel, inspect_wheel
from pyoco_server.wheels.wheel_name import InvalidWheelName, WheelName
from tests.support.samples.wheels import wheel_bytes

NAME = WheelName.parse("greetings-0.1.0-py3-none-any.whl")
INFO = "greetings-0.1.0.dist-info"


def refusal(content: bytes, name: WheelName = NAME, *, most: int = 10**9) -> str:
    with pytest.raises(InvalidWheel) as caught:
        inspect_wheel(io.BytesIO(content), name, max_unpacked_bytes=most)
    return str(caught.value)


def with_entry(entry: zipfile.ZipInfo | str, data: bytes = b"x") -> bytes:
    """A good wheel with one more file, as an attacker would add it."""
    content = io.BytesIO(wheel_bytes())
    with zipfile.ZipFile(content, "a") as archive:
        archive.writestr(entry, data)
    return content.getvalue()


@pytest.mark.parametrize(
    ("name", "version", "file_name"),
    [
        ("greetings", "0.1.0", "greetings-0.1.0-py3-none-any.whl"),
        ("greetings", "0.1.0", "greetings-0.1.0-1-cp311-cp311-manylinux_2_17_x86_64.whl"),
        ("My_Tools.extra", "1.0", "my_tools_extra-1.0.0-py2.py3-none-any.whl"),
        ("greetings", "1.0+local.1", "greetings-1.0+local.1-py3-none-any.whl"),
        ("greetings", "1!2.0rc1", "greetings-1!2.0rc1-py3-none-any.whl"),
    ],
)
def test_a_valid_wheel_is_accepted(name: str, version: str, file_name: str) -> None:
    content = wheel_bytes(name, version, {"a/b.py": "x = 1\n", "a/ü.txt": "ü", "empty": ""})
    inspect_wheel(io.BytesIO(content), WheelName.parse(file_name), max_unpacked_bytes=10**6)


def test_a_wheel_with_folders_and_signatures_is_accepted() -> None:
    content = io.BytesIO(wheel_bytes())
    with zipfile.ZipFile(content, "a") as archive:
        archive.mkdir("folder")
        archive.writestr(f"{INFO}/RECORD.jws", b"signature")
    inspect_wheel(content, NAME, max_unpacked_bytes=10**6)


def _link() -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo("link")
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    return entry


def _lzma() -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo("packed")
    entry.compress_type = zipfile.ZIP_LZMA
    return entry


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("../evil.py", "leads out of the target folder"),
        ("a/../../evil.py", "leads out of the target folder"),
        ("a/./b.py", "leads out of the target folder"),
        ("a//b.py", "leads out of the target folder"),
        ("/etc/passwd", "absolute or empty path"),
        ("a\\..\\evil.py", "other systems read differently"),
        ("C:/evil.py", "other systems read differently"),
        (_link(), "is a link or a device"),
        (_lzma(), "not compressed by deflate"),
        ("sneaked_in.py", "RECORD has no hash of sneaked_in.py"),
        ("other-1.0.dist-info/METADATA", "expected one *.dist-info folder"),
    ],
)
def test_a_file_that_could_do_harm_is_rejected(entry: zipfile.ZipInfo | str, why: str) -> None:
    assert why in refusal(with_entry(entry))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_file_that_is_there_twice_is_rejected() -> None:
    assert "is in it twice" in refusal(with_entry("greetings.py"))


def test_a_name_after_a_nul_byte_is_rejected() -> None:
    content = with_entry("harmlessX../evil.py").replace(b"harmlessX../evil.py", b"harmless\0../evil.py")
    assert "other systems read differently" in refusal(content)


def _encrypted() -> bytes:
    content = bytearray(wheel_bytes())
    place = content.index(b"PK\x01\x02")
    content[place + 8] |= 1
    return bytes(content)


def _damaged() -> bytes:
    """One byte of a stored file is another."""
    content = with_entry("x")
    stored = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(stored, "w") as new:
        for entry in old.infolist()[:-1]:
            new.writestr(entry.filename, old.read(entry))
    return stored.getvalue().replace(b"VERSION = '0.1.0'", b"VERSION = '9.9.9'")


def _many_files() -> bytes:
    """The end of an archive that says how large its list is: far too large."""
    content = wheel_bytes()
    place = content.rindex(b"PK\x05\x06")
    return content[: place + 12] + struct.pack("<L", 2**31) + content[place + 16 :]


def _wide_form() -> bytes:
    content = wheel_bytes()
    place = content.rindex(b"PK\x05\x06")
    return content[:place] + b"PK\x06\x07" + bytes(16) + content[place:]


def _wide_form_behind_a_long_comment() -> bytes:
    """The 64-bit form begins as far from the end of the file as it can."""
    content = wheel_bytes()
    place = content.rindex(b"PK\x05\x06")
    end = content[place : place + 20] + struct.pack("<H", 65535) + bytes(65535)
    return content[:place] + b"PK\x06\x07" + bytes(16) + end


def _listing(files: int, *, says: int) -> bytes:
    """A list of so many empty files, and an end that says something else about their number."""
    entries = b"".join(
        b"PK\x01\x02" + bytes(24) + struct.pack("<3H", 6, 0, 0) + bytes(12) + b"%06x" % number
        for number in range(files)
    )
    return entries + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, says, says, len(entries), 0, 0)


def test_the_files_of_an_archive_are_counted_before_its_list_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "expected one *.dist-info folder" in refusal(_listing(65534, says=1)), "that many are looked at"

    def not_read(*_: object) -> None:
        raise AssertionError("the whole list was read")

    monkeypatch.setattr(zipfile, "ZipFile", not_read)
    assert "too many files; expected at most 65534" in refusal(_listing(65535, says=1))


@pytest.mark.parametrize(
    "tags",
    [
        ["py3-none-any"],
        ["py2.py3-none-any"],
        ["py2-none-any", "py3-none-any"],
        ["py3-none-any", "py2-none-any"],
    ],
)
def test_a_wheel_whose_tags_are_those_of_its_name_is_accepted(tags: list[str]) -> None:
    whole = "py3" if tags == ["py3-none-any"] else "py2.py3"
    name = WheelName.parse(f"greetings-0.1.0-{whole}-none-any.whl")
    inspect_wheel(io.BytesIO(wheel_bytes(tags=tags)), name, max_unpacked_bytes=10**6)


@pytest.mark.parametrize(
    "tags",
    [
        ["cp311-cp311-win32"],
        ["py2-none-any", "py3-none-any"],
        ["nonsense"],
        # As many as a line can stand for: they are not even made.
        [f"{'.'.join(f'p{n}' for n in range(3000))}-{'.'.join(f'a{n}' for n in range(3000))}-any"],
    ],
)
def test_a_wheel_whose_tags_are_others_was_renamed(tags: list[str]) -> None:
    told = refusal(wheel_bytes(tags=tags))
    assert f"{INFO}/WHEEL says Tag" in told
    assert "greetings-0.1.0-py3-none-any.whl; a wheel must not be renamed" in told


def requiring(python: str) -> bytes:
    return wheel_bytes(metadata=f"Name: greetings\nVersion: 0.1.0\nRequires-Python: {python}\n")


def test_requires_python_is_returned() -> None:
    for python in ("", ">=3.11", "<4,>=3.8.1"):
        found = inspect_wheel(io.BytesIO(requiring(python)), NAME, max_unpacked_bytes=10**6)
        assert str(found) == python


@pytest.mark.parametrize("python", ["three", ">=3.x", ", ".join([">=3"] * 100)])
def test_a_wheel_for_a_python_that_there_cannot_be_is_rejected(python: str) -> None:
    assert "METADATA says Requires-Python" in refusal(requiring(python))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: b"", "not a zip archive"),
        (lambda: b"PK\x05\x06", "not a zip archive"),
        (lambda: b"#!/bin/sh\n" * 100, "not a zip archive"),
        (lambda: wheel_bytes()[:-30], "not a zip archive"),
        (lambda: wheel_bytes()[100:], "not a readable zip archive"),
        (_many_files, "too many files"),
        (_wide_form, "too many files"),
        (_wide_form_behind_a_long_comment, "too many files"),
        (_encrypted, "is encrypted"),
        (_damaged, "not a readable zip archive (Bad CRC-32"),
        (lambda: wheel_bytes(without=("METADATA",)), f"{INFO}/METADATA is missing"),
        (lambda: wheel_bytes(without=("WHEEL",)), f"{INFO}/WHEEL is missing"),
        (lambda: wheel_bytes(without=("RECORD",)), f"{INFO}/RECORD is missing"),
        (lambda: wheel_bytes(record="greetings.py,sha256=AAAA,1\n"), "differs from"),
        (lambda: wheel_bytes(record="greetings.py,md5=AAAA,1\n"), "has no hash of greetings.py"),
        (lambda: wheel_bytes(record="greetings.py\n"), "has no hash of greetings.py"),
        (lambda: wheel_bytes(record="x" * 200_000), "cannot be read"),
        (lambda: wheel_bytes(version="0.2.0"), "its file name says greetings 0.1.0"),
        (lambda: wheel_bytes("goodbyes"), "its file name says greetings 0.1.0"),
        (
            lambda: wheel_bytes(metadata="Name: goodbyes\nVersion: 0.1.0\n"),
            "METADATA says 'goodbyes' '0.1.0'",
        ),
        (lambda: wheel_bytes(metadata="Name: greetings\nVersion: 1\n"), "METADATA says 'greetings' '1'"),
        (lambda: wheel_bytes(metadata="Name: greetings\n"), "METADATA says 'greetings' 'None'"),
        (lambda: wheel_bytes(metadata="Name: g g\nVersion: x y\n"), "METADATA says 'g g' 'x y'"),
        (lambda: wheel_bytes(metadata="x" * 2**21), "at most 1048576 are taken"),
        (lambda: wheel_bytes(files={f"{INFO}/WHEEL.old": ""}, without=("WHEEL",)), "WHEEL is missing"),
    ],
)
def test_an_invalid_wheel_is_rejected(make: Callable[[], bytes], why: str) -> None:
    assert why in refusal(make())


def test_a_wheel_that_unpacks_to_too_much_is_rejected() -> None:
    content = wheel_bytes(files={"zeros": bytes(10**6)})
    assert len(content) < 10_000
    assert "unpacked it has" in refusal(content, most=10**6)


@given(place=st.integers(0, len(wheel_bytes()) - 1), byte=st.integers(0, 255), cut=st.booleans())
@settings(max_examples=400, deadline=None, derandomize=True)
@pytest.mark.filterwarnings("ignore")
def test_a_damaged_wheel_is_rejected_and_nothing_else_happens(place: int, byte: int, cut: bool) -> None:
    content = bytearray(wheel_bytes())
    content[place] = byte
    with suppress(InvalidWheel):
        inspect_wheel(io.BytesIO(content[:place] if cut else content), NAME, max_unpacked_bytes=10**6)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "x.whl",
        "greetings.zip",
        "greetings-0.1.0.whl",
        "a-1-py3-none.whl",
        "a-x.y-py3-none-any.whl",
        "a b-1-py3-none-any.whl",
        "a/b-1-py3-none-any.whl",
        "../a-1-py3-none-any.whl",
        "a-1-py3-none-any.whl\n",
        "ご挨拶-0.1.0-py3-none-any.whl",
        f"{'g' * 300}-0.1.0-py3-none-any.whl",
    ],
)
def test_an_invalid_wheel_name(name: str) -> None:
    with pytest.raises(InvalidWheelName, match="expected a wheel's own name"):
        WheelName.parse(name)


def test_a_name_says_package_version_and_where_it_fits() -> None:
    name = WheelName.parse("My_Tools-1.0-cp311-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl")
    assert (name.package, str(name.version)) == ("my-tools", "1.0")
    assert {tag.platform for tag in name.compatible_with} == {"manylinux_2_17_x86_64", "manylinux2014_x86_64"}
