"""Names of artifacts."""

import unicodedata

import pytest

from pyoco_server.records.runs.artifact_models import (
    InvalidArtifactName,
    artifact_name,
    artifact_of,
    object_name,
    shown_left_out,
)


@pytest.mark.parametrize(
    "name", ["a", "a.b", "plots/loss.png", ".hidden", "a b", "日本/語.csv", "..a", "a..b"]
)
def test_relative_paths_are_names(name: str) -> None:
    assert artifact_name(name) == name
    assert artifact_of(object_name(name)) == name


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "1 to 1000 bytes"),
        ("../x", "no part '..'"),
        ("a/../../x", "no part '..'"),
        ("/etc/passwd", "begins with no '/'"),
        ("a//b", "no part ''"),
        ("a/", "no part ''"),
        ("./a", "no part '.'"),
        ("a\0b", "no control characters"),
        ("a\nb", "no control characters"),
        ("..\\x", "no backslashes"),
        ("x" * 256, "at most 255 bytes"),
        ("x/" * 501, "1 to 1000 bytes"),
        (".pyoco-unfinished-1", "begin with '.pyoco-unfinished-'"),
        ("a/.pyoco-unfinished-1", "begin with '.pyoco-unfinished-'"),
        ("\udcff", "not valid UTF-8"),
        (b"bytes", "not bytes"),
        (None, "not NoneType"),
    ],
)
def test_other_names_are_refused_with_a_reason(name: object, why: str) -> None:
    with pytest.raises(InvalidArtifactName, match=why.replace(".", r"\.")):
        artifact_name(name)


def test_a_name_is_in_normal_form_c() -> None:
    assert artifact_name(unicodedata.normalize("NFD", "é")) == unicodedata.normalize("NFC", "é")


@pytest.mark.parametrize("stored", ["outputs/a", "artifacts", "artifacts/", "artifacts/../x", "artifacts//x"])
def test_other_objects_of_a_run_are_no_artifacts(stored: str) -> None:
    assert artifact_of(stored) is None


def test_any_name_of_a_file_can_be_shown() -> None:
    shown = shown_left_out("\udcff" + "x" * 300, "y" * 300, None)
    assert shown.name.startswith("\\udcffxxx")
    assert (len(shown.name), len(shown.reason)) == (200, 200)
