"""Compare URLs, names of branches, and tags of repositories."""

from pathlib import Path

import pytest

from pyoco_server.agent import repo_tag as tags
from pyoco_server.agent.compare_url import compare_url
from pyoco_server.agent.git.branch_names import branch_problem
from pyoco_server.agent.git.git_command import redacted
from pyoco_server.agent.repo_tag import machine_id, repo_tag

GITHUB = "https://github.com/o/r/compare/main...ai/x?expand=1"
GITLAB = (
    "https://gitlab.com/group/sub/r/-/merge_requests/new"
    "?merge_request%5Bsource_branch%5D=ai%2Fx&merge_request%5Btarget_branch%5D=main"
)


@pytest.mark.parametrize(
    ("remote", "expected"),
    [
        ("https://github.com/o/r", GITHUB),
        ("https://github.com/o/r.git", GITHUB),
        ("https://github.com/o/r/", GITHUB),
        ("https://user:token@github.com/o/r.git", GITHUB),
        ("git@github.com:o/r.git", GITHUB),
        ("ssh://git@github.com/o/r.git", GITHUB),
        ("ssh://git@github.com:22/o/r.git", GITHUB),
        ("git@gitlab.com:group/sub/r.git", GITLAB),
        ("https://gitlab.com/group/sub/r.git", GITLAB),
        ("https://github.example.com:8443/o/r.git", GITHUB.replace("github.com", "github.example.com:8443")),
        ("/srv/git/r.git", None),
        ("file:///srv/git/r.git", None),
        ("https://example.com/o/r.git", None),
        ("https://notgithub.com/o/r.git", None),
        ("git@github.com:r.git", None),
        ("ext::sh -c evil", None),
        ("https://github.com:x/o/r", None),
        ("", None),
    ],
)
def test_compare_url_of_a_remote(remote: str, expected: str | None) -> None:
    assert compare_url(remote, "main", "ai/x") == expected


def test_given_page_comes_first() -> None:
    page = "https://git.example.com/team/app/"
    assert compare_url("/srv/r.git", "main", "ai/x", page) == f"{page}compare/main...ai/x?expand=1"
    assert "/-/merge_requests/new?" in (compare_url("/srv/r", "main", "x", "https://gitlab.corp/r") or "")


def test_names_are_escaped_in_the_address() -> None:
    assert compare_url("git@github.com:o/r.git", "main", "ai/a+b") == GITHUB.replace("ai/x", "ai/a%2Bb")


@pytest.mark.parametrize("name", ["main", "ai/20261117-x", "release/1.2", "a_b+c"])
def test_names_of_branches(name: str) -> None:
    assert branch_problem(name) is None


@pytest.mark.parametrize(
    "name",
    ["", "-x", "--force", "+x", "a..b", "a//b", "a/", "a.lock", "a/.b", "a.lock/b", "HEAD", "refs/heads/x",
     "a b", "a:b", "a~1", "a^", "a*", "a\\b", "a\n", "日本", "@{-1}", "x" * 201],
)  # fmt: skip
def test_names_that_git_would_interpret_are_refused(name: str) -> None:
    assert branch_problem(name)


def test_two_clones_of_one_origin_have_different_tags(tmp_path: Path) -> None:
    made = {repo_tag(tmp_path / name, "git@github.com:o/r.git") for name in ("a", "b")}
    assert len(made) == 2
    assert all(len(tag) == len("repo-") + 12 for tag in made)


def test_tag_is_the_same_each_time_and_differs_by_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = repo_tag(tmp_path, "x")
    assert repo_tag(tmp_path / ".", "x") == first
    monkeypatch.setattr(tags, "machine_id", lambda: "another")
    assert repo_tag(tmp_path, "x") != first


def test_machine_without_an_id_is_named_by_its_host(tmp_path: Path) -> None:
    empty = tmp_path / "machine-id"
    empty.write_text("\n")
    assert machine_id((tmp_path / "none", empty))
    empty.write_text("abc\n")
    assert machine_id((empty,)) == "abc"


def test_credentials_of_an_address_are_not_shown() -> None:
    text = "fatal: unable to access 'https://user:secret@host/r.git/': 403"
    assert redacted(text) == "fatal: unable to access 'https://host/r.git/': 403"
