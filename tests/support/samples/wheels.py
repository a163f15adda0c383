"""Real wheels for tests: zip archives with metadata files."""

import base64
import csv
import hashlib
import io
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path


def wheel_bytes(
    name: str = "greetings",
    version: str = "0.1.0",
    files: Mapping[str, str | bytes] | None = None,
    *,
    metadata: str | None = None,
    tags: Sequence[str] = (),
    without: tuple[str, ...] = (),
    record: str | None = None,
) -> bytes:
    """A wheel; `metadata` and `record` are what those files say instead, `without` leaves some out.

    Like any that was made by hand it says nothing about its tags, unless they are given.
    """
    content = io.BytesIO()
    info = f"{name}-{version}.dist-info"
    described = metadata or f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    written: dict[str, bytes] = {
        path: text.encode() if isinstance(text, str) else text
        for path, text in {
            **(files if files is not None else {f"{name}.py": f"VERSION = {version!r}\n"}),
            f"{info}/METADATA": described,
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\n"
            + "".join(f"Tag: {tag}\n" for tag in tags),
        }.items()
    }
    written[f"{info}/RECORD"] = (record or _record(written, f"{info}/RECORD")).encode()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in written.items():
            if path.removeprefix(f"{info}/") not in without:
                archive.writestr(_entry(path), data, zipfile.ZIP_DEFLATED)
    return content.getvalue()


def _entry(path: str) -> zipfile.ZipInfo:
    """Of a fixed time, so that the same wheel has the same bytes."""
    entry = zipfile.ZipInfo(path, date_time=(2026, 1, 1, 0, 0, 0))
    entry.external_attr = 0o600 << 16
    return entry


def wheel_file(
    folder: Path,
    name: str = "greetings",
    version: str = "0.1.0",
    files: Mapping[str, str | bytes] | None = None,
    *,
    tags: str = "py3-none-any",
) -> Path:
    path = folder / f"{name}-{version}-{tags}.whl"
    path.write_bytes(wheel_bytes(name, version, files))
    return path


def _record(files: Mapping[str, bytes], own_path: str) -> str:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.writerow((path, f"sha256={digest}", len(data)))
    rows.writerow((own_path, "", ""))
    return text.getvalue()
