"""Checks that a file is the wheel that its name says, and that it is safe to unpack.

Nothing is unpacked here. The central directory is bounded before it is read, every path is checked, and the
content of every file is compared with its hash in RECORD.
"""

import base64
import csv
import hashlib
import io
import stat
import struct
import zipfile
import zlib
from dataclasses import dataclass
from email.message import Message
from email.parser import HeaderParser
from math import prod
from pathlib import PurePosixPath
from typing import IO, Final

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import Tag, parse_tag
from packaging.utils import InvalidName, canonicalize_name
from packaging.version import InvalidVersion, Version

from pyoco_server.wheels.wheel_name import WheelName

# The unpacked size may be this many times the largest packed size.
MAX_UNPACKED_RATIO: Final = 10
# More files need ZIP64, which is rejected.
_MAX_FILES: Final = 65534
_MAX_DIRECTORY_BYTES: Final = 32 * 1024 * 1024
_MAX_PYTHON_CHARS: Final = 200
_MAX_TAGS: Final = 1000
_MAX_METADATA_BYTES: Final = 1024 * 1024
_MAX_RECORD_BYTES: Final = 64 * 1024 * 1024
_BLOCK_BYTES: Final = 1024 * 1024

_END: Final = struct.Struct("<4s4H2LH")
_END_SIGNATURE: Final = b"PK\x05\x06"
_END_64_LOCATOR: Final = b"PK\x06\x07"
_LOCATOR_BYTES: Final = 20
_ENTRY_SIGNATURE: Final = b"PK\x01\x02"
_ENTRY_BYTES: Final = 46
# Of name, extra fields and comment.
_ENTRY_LENGTHS: Final = struct.Struct("<3H")
_ENTRY_LENGTHS_AT: Final = 28
_MAX_COMMENT_BYTES: Final = 65535

# What zipfile raises for a hostile archive.
_UNREADABLE: Final = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError),
    *(NotImplementedError, RuntimeError, ValueError, OverflowError, OSError),
)
_ENCRYPTED: Final = 0x1
_COMPRESSIONS: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_HASHES: Final = frozenset({"sha256", "sha384", "sha512"})
# RECORD cannot contain its own hash.
_UNHASHED: Final = frozenset({"RECORD", "RECORD.jws", "RECORD.p7s"})


class InvalidWheel(ValueError):
    """The text says what is wrong with the file, and what to do."""


def inspect_wheel(file: IO[bytes], name: WheelName, *, max_unpacked_bytes: int) -> SpecifierSet:
    """Requires-Python of the wheel; InvalidWheel unless the file is the wheel of this name. Blocking."""
    try:
        _check_directory(file)
        with zipfile.ZipFile(file) as archive:
            return _Inspection(archive, name).check(max_unpacked_bytes)
    except InvalidWheel:
        raise
    except _UNREADABLE as error:
        raise InvalidWheel(f"it is not a readable zip archive ({error}); build the wheel again") from error


def _check_directory(file: IO[bytes]) -> None:
    """zipfile reads the whole central directory into memory, so its size is checked first."""
    size = file.seek(0, io.SEEK_END)
    # The end record with its longest comment, and the ZIP64 locator before it.
    begin = file.seek(max(0, size - _END.size - _MAX_COMMENT_BYTES - _LOCATOR_BYTES))
    tail = file.read()
    place = tail.rfind(_END_SIGNATURE)
    if place < 0 or len(tail) < place + _END.size:
        raise InvalidWheel("it is not a zip archive; a wheel is one: build it with `python -m build`")
    directory_bytes = _END.unpack_from(tail, place)[5]
    locator = tail[max(0, place - _LOCATOR_BYTES) : place]
    if locator.startswith(_END_64_LOCATOR) or directory_bytes > _MAX_DIRECTORY_BYTES:
        raise _too_many_files()
    # zipfile looks for the directory right before its end record, whatever offset that has.
    file.seek(max(0, begin + place - directory_bytes))
    _count_files(file.read(directory_bytes))


def _count_files(directory: bytes) -> None:
    """zipfile ignores the number of files in the end record, and so does this."""
    place = files = 0
    while directory.startswith(_ENTRY_SIGNATURE, place) and len(directory) >= place + _ENTRY_BYTES:
        files += 1
        if files > _MAX_FILES:
            raise _too_many_files()
        place += _ENTRY_BYTES + sum(_ENTRY_LENGTHS.unpack_from(directory, place + _ENTRY_LENGTHS_AT))


def _too_many_files() -> InvalidWheel:
    return InvalidWheel(f"it has too many files; expected at most {_MAX_FILES}: split the package")


@dataclass(frozen=True, slots=True)
class _Inspection:
    archive: zipfile.ZipFile
    name: WheelName

    def check(self, max_unpacked_bytes: int) -> SpecifierSet:
        entries = self.archive.infolist()
        _check_paths(entries)
        unpacked = sum(entry.file_size for entry in entries)
        if unpacked > max_unpacked_bytes:
            raise InvalidWheel(
                f"unpacked it has {unpacked} bytes, and {max_unpacked_bytes} are allowed; split the package"
            )
        folder = self._info_folder(entries)
        python = self._check_metadata(folder)
        self._check_format(folder)
        self._check_content(folder)
        return python

    def _info_folder(self, entries: list[zipfile.ZipInfo]) -> str:
        tops = {PurePosixPath(entry.filename).parts[0] for entry in entries}
        folders = sorted(top for top in tops if top.endswith(".dist-info"))
        if len(folders) != 1:
            found = ", ".join(folders) or "none"
            raise InvalidWheel(f"expected one *.dist-info folder in it, found {found}; build the wheel again")
        [folder] = folders
        package, _, version = folder.removesuffix(".dist-info").rpartition("-")
        self._compare(f"its folder {folder}", package, version)
        return folder

    def _check_metadata(self, folder: str) -> SpecifierSet:
        metadata = self._headers(f"{folder}/METADATA")
        self._compare(f"{folder}/METADATA", str(metadata["Name"]), str(metadata["Version"]))
        python = str(metadata["Requires-Python"] or "")
        versions = _python_versions(python)
        if versions is None:
            raise InvalidWheel(
                f"{folder}/METADATA says Requires-Python {python[:_MAX_PYTHON_CHARS]!r}; "
                "expected versions such as >=3.11,<4"
            )
        return versions

    def _compare(self, where: str, package: str, version: str) -> None:
        expected = f"{self.name.package} {self.name.version}"
        try:
            same = canonicalize_name(package, validate=True) == self.name.package
            same = same and Version(version) == self.name.version
        except (InvalidName, InvalidVersion):
            same = False
        if not same:
            raise InvalidWheel(
                f"{where} says {package!r} {version!r}, its file name says {expected}; "
                "a wheel must not be renamed: upload it under the name it was built with"
            )

    def _check_format(self, folder: str) -> None:
        headers = self._headers(f"{folder}/WHEEL")
        form = str(headers["Wheel-Version"])
        if form.partition(".")[0] != "1":
            raise InvalidWheel(f"{folder}/WHEEL says Wheel-Version {form!r}; expected 1.x")
        tags = [str(line) for line in headers.get_all("Tag", [])]
        if tags and _tags_in(tags) != self.name.compatible_with:
            raise InvalidWheel(
                f"{folder}/WHEEL says Tag {', '.join(tags)[:200]!r}, its file name {self.name.file_name}; "
                "a wheel must not be renamed: upload it under the name it was built with"
            )

    def _headers(self, path: str) -> Message:
        text = self._small_file(path, _MAX_METADATA_BYTES).decode("utf-8", "replace")
        return HeaderParser().parsestr(text)

    def _small_file(self, path: str, most: int) -> bytes:
        try:
            entry = self.archive.getinfo(path)
        except KeyError:
            raise InvalidWheel(f"{path} is missing in it; build the wheel again") from None
        if entry.file_size > most:
            raise InvalidWheel(f"{path} has {entry.file_size} bytes; at most {most} are taken")
        return self.archive.read(entry)

    def _check_content(self, folder: str) -> None:
        hashes = self._recorded_hashes(f"{folder}/RECORD")
        unhashed = {f"{folder}/{name}" for name in _UNHASHED}
        for entry in self.archive.infolist():
            if entry.is_dir() or entry.filename in unhashed:
                continue
            recorded = hashes.get(entry.filename)
            if recorded is None:
                raise InvalidWheel(f"{folder}/RECORD has no hash of {entry.filename}; build the wheel again")
            algorithm, _, expected = recorded.partition("=")
            if _encoded(self._digest(entry, algorithm)) != expected.rstrip("="):
                raise InvalidWheel(f"{entry.filename} differs from {folder}/RECORD; build the wheel again")

    def _recorded_hashes(self, path: str) -> dict[str, str]:
        text = self._small_file(path, _MAX_RECORD_BYTES).decode("utf-8", "replace")
        try:
            rows = [row for row in csv.reader(io.StringIO(text)) if row]
        except csv.Error as error:
            raise InvalidWheel(f"{path} cannot be read ({error}); build the wheel again") from error
        return {row[0]: row[1] for row in rows if len(row) > 1 and row[1].partition("=")[0] in _HASHES}

    def _digest(self, entry: zipfile.ZipInfo, algorithm: str) -> bytes:
        digest = hashlib.new(algorithm)
        with self.archive.open(entry) as content:
            while block := content.read(_BLOCK_BYTES):
                digest.update(block)
        return digest.digest()


def _tags_in(lines: list[str]) -> frozenset[Tag]:
    """Empty for an invalid line, or for too many tags: one line may stand for many."""
    spread = sum(prod(part.count(".") + 1 for part in line.split("-")) for line in lines)
    try:
        return frozenset(tag for line in lines if spread <= _MAX_TAGS for tag in parse_tag(line.strip()))
    except ValueError:
        return frozenset()


def _check_paths(entries: list[zipfile.ZipInfo]) -> None:
    seen: set[str] = set()
    for entry in entries:
        path = entry.filename
        problem = _path_problem(entry)
        if problem is None and path in seen:
            problem = "is in it twice"
        if problem is not None:
            raise InvalidWheel(f"the file {path[:200]!r} {problem}; build the wheel again")
        seen.add(path)


def _path_problem(entry: zipfile.ZipInfo) -> str | None:
    path = entry.filename
    # `filename` ends at a NUL byte, `orig_filename` does not.
    if "\\" in entry.orig_filename or "\x00" in entry.orig_filename or ":" in path.partition("/")[0]:
        return "has a path that other systems read differently"
    if path.startswith("/") or not path.strip("/"):
        return "has an absolute or empty path"
    if any(part in (".", "..", "") for part in path.removesuffix("/").split("/")):
        return "leads out of the target folder"
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "is a link or a device"
    if entry.flag_bits & _ENCRYPTED or entry.compress_type not in _COMPRESSIONS:
        return "is encrypted, or not compressed by deflate"
    return None


def _encoded(digest: bytes) -> str:
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _python_versions(text: str) -> SpecifierSet | None:
    """None for a text that names no versions, or is longer than any list of them."""
    try:
        return SpecifierSet(text) if len(text) <= _MAX_PYTHON_CHARS else None
    except InvalidSpecifier:
        return None
