"""Request files: what a change keeps, what a broken header does, and ids that stay in their folder."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.agent.agent_errors import AgentCode, AgentError
from pyoco_server.agent.atomic_files import checked_folder
from pyoco_server.agent.repo_paths import RepoPaths
from pyoco_server.agent.request_file import (
    Priority,
    RequestFile,
    RequestStatus,
    answer_key,
    new_request_text,
)
from pyoco_server.agent.request_folder import MAX_FILE_BYTES, NewRequest
from pyoco_server.agent.request_ids import checked_request_id, new_request_id, run_number_text, slug_of

NOW = datetime(2026, 11, 17, 12, 30, tzinfo=UTC)
HAND_WRITTEN = """---
# reviewed by Ada
id: fix
title: "Fix: it"   # short
priority: P1
estimate: 3d
links: [a,
  b]
status: queued
---

intro

# 要望

Do it.

## Details

More.

## Plan

old plan

## Report

- mine
"""


def test_want_ends_at_the_plan_and_may_have_headings() -> None:
    file = RequestFile.parse("fix", HAND_WRITTEN)
    assert file.want == "\nDo it.\n\n## Details\n\nMore.".strip("\n")
    assert (file.plan, file.report) == ("old plan", "- mine")


def test_change_keeps_comments_unknown_keys_and_other_sections() -> None:
    file = RequestFile.parse("fix", HAND_WRITTEN).changed({"status": "running", "run_id": "001"}, plan="new")
    assert file.raw == HAND_WRITTEN.replace("status: queued\n", "status: running\nrun_id: '001'\n").replace(
        "old plan", "new"
    )


def test_change_to_the_same_values_changes_nothing() -> None:
    file = RequestFile.parse("fix", HAND_WRITTEN)
    assert file.changed({"status": "queued", "title": "Fix: it", "links": ["a", "b"]}).raw == HAND_WRITTEN


def test_removed_field_is_gone_with_all_its_lines() -> None:
    file = RequestFile.parse("fix", HAND_WRITTEN).changed({"links": None})
    assert "links" not in file.fields
    assert "  b]" not in file.raw
    assert file.fields["estimate"] == "3d"


def test_header_in_one_pair_of_braces_can_be_changed() -> None:
    file = RequestFile.parse("x", "---\n{title: a, odd: 1}\n---\n").changed({"status": "done"})
    assert (file.title, file.status, file.fields["odd"]) == ("a", RequestStatus.DONE, "1")


def test_repeated_key_has_one_value_after_a_change() -> None:
    file = RequestFile.parse("x", "---\nstatus: queued\ntitle: t\nstatus: failed\n---\n").changed(
        {"status": "done"}
    )
    assert file.raw.count("status:") == 1
    assert file.status == RequestStatus.DONE


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "no header",
        "---\ntitle: 'x\n---\nbody",
        "---\n- a\n---\n",
        "---\ntitle: x\n",
        "---\na: &a [*a, *a]\n b\n---\n",
    ],
    ids=["empty", "none", "quote", "list", "unclosed", "anchor"],
)
def test_broken_header_returns_the_raw_text_and_refuses_changes(raw: str) -> None:
    file = RequestFile.parse("x", raw)
    assert file.raw == raw
    assert file.problem
    assert (file.title, file.priority, file.status) == ("x", Priority.P2, RequestStatus.QUEUED)
    with pytest.raises(AgentError) as refused:
        file.changed({"status": "done"})
    assert refused.value.code == AgentCode.REQUEST_UNREADABLE


def test_values_of_a_person_that_are_not_valid_are_reported() -> None:
    file = RequestFile.parse("x", "---\nid: y\npriority: urgent\nstatus: open\nrun_id: 7\nattempt: x\n---\n")
    assert (file.priority, file.status, file.run_number, file.attempt) == (
        Priority.P2,
        RequestStatus.QUEUED,
        "007",
        None,
    )
    assert [problem.partition("=")[0] for problem in file.field_problems] == ["priority", "status", "id"]


def test_times_and_numbers_stay_texts() -> None:
    file = RequestFile.parse(
        "x", "---\ncreated_at: 2026-11-17T09:00:00+09:00\nrun_id: 001\ntitle: 12\nno: yes\n---\n"
    )
    assert file.fields == {
        "created_at": "2026-11-17T09:00:00+09:00",
        "run_id": "001",
        "title": "12",
        "no": "yes",
    }


def test_windows_line_ends_are_read() -> None:
    file = RequestFile.parse("x", HAND_WRITTEN.replace("\n", "\r\n"))
    assert file.title == "Fix: it"
    assert (file.plan or "").strip() == "old plan"


def test_unclosed_code_does_not_hide_the_sections() -> None:
    file = RequestFile.parse("x", "---\ntitle: t\n---\n\n# 要望\n\n```\ncode\n\n## Plan\n\np\n\n## Report\n")
    assert (file.plan, file.report) == ("p", "")


def test_headings_in_code_are_not_sections() -> None:
    file = RequestFile.parse("x", "---\ntitle: t\n---\n\n# 要望\n\n```\n## Plan\n```\n\n## Plan\n\np\n")
    assert file.want == "```\n## Plan\n```".strip()
    assert file.plan == "p"


TEXTS = st.lists(
    st.sampled_from(
        [
            "## Plan",
            "## Report",
            "# 要望",
            "```",
            "~~~",
            "````",
            "---",
            "x",
            "",
            " ## Plan",
            "\\## Plan",
            "日本",
        ]
    ),
    max_size=8,
).map("\n".join)


@given(TEXTS, TEXTS, TEXTS)
def test_sections_come_back_whatever_they_contain(want: str, plan: str, report: str) -> None:
    file = RequestFile.parse("x", new_request_text({"id": "x", "title": "t"}, want))
    after = file.changed({"status": "done"}, plan=plan, report=report)
    again = after.changed({"status": "failed"}, want=want, plan=plan, report=report)
    assert (again.want, again.plan, again.report) == (after.want, after.plan, after.report)
    for line in [*want.split("\n"), *plan.split("\n"), *report.split("\n")]:
        assert line in again.raw
    assert again.problem is None


@given(st.text(max_size=40))
def test_any_title_comes_back_as_one_line(title: str) -> None:
    file = RequestFile.parse("x", new_request_text({"id": "x", "title": title or "t"}, ""))
    assert file.problem is None
    assert set(file.fields) <= {"id", "title"}


@pytest.mark.parametrize(
    "given_id",
    ["../x", "x/y", "/etc/passwd", "", ".", "..", "-x", "x-", "X", "a" * 101, "a\n", "a.b", "日本", None, 7],
)
def test_ids_that_could_leave_the_folder_are_refused(given_id: object) -> None:
    with pytest.raises(AgentError) as refused:
        checked_request_id(given_id)
    assert refused.value.code == AgentCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("title", "slug"),
    [
        ("Fix login timeout!", "fix-login-timeout"),
        ("Café au lait", "cafe-au-lait"),
        ("A" * 80, "a" * 48),
        ("--x--", "x"),
    ],
)
def test_slug_of_a_title(title: str, slug: str) -> None:
    assert slug_of(title) == slug


def test_title_without_ascii_letters_has_a_hash_as_its_slug() -> None:
    assert new_request_id("ログイン放置", NOW).startswith("20261117-")
    assert slug_of("ログイン放置") == slug_of("ログイン放置") != slug_of("タイムアウト")
    assert checked_request_id(new_request_id("ログイン 2", NOW))


def test_run_ids_are_three_digits() -> None:
    assert [run_number_text(number) for number in (1, 42, 1234)] == ["001", "042", "1234"]


@pytest.fixture
def paths(tmp_path: Path) -> RepoPaths:
    paths = RepoPaths(tmp_path)
    paths.prepare()
    return paths


def test_same_title_gets_another_id(paths: RepoPaths) -> None:
    new = NewRequest(title="Fix it", base="main")
    ids = [paths.requests.create(new, NOW).request_id for _ in range(3)]
    assert ids == ["20261117-fix-it", "20261117-fix-it-2", "20261117-fix-it-3"]
    assert paths.requests.ids() == sorted(ids)


def test_given_id_that_is_taken_is_refused(paths: RepoPaths) -> None:
    new = NewRequest(title="Fix it", base="main", request_id="mine")
    paths.requests.create(new, NOW)
    with pytest.raises(AgentError) as refused:
        paths.requests.create(new, NOW)
    assert refused.value.code == AgentCode.FILE_ALREADY_EXISTS


def test_new_file_has_every_field_and_section(paths: RepoPaths) -> None:
    file = paths.requests.create(NewRequest(title="T", base="main", tags=("a",), priority=Priority.P0), NOW)
    at = "2026-11-17T12:30:00+00:00"
    assert file.fields == {
        "id": "20261117-t", "title": "T", "priority": "P0", "status": "queued", "base": "main",
        "branch": "ai/20261117-t", "tags": ["a"], "created_at": at, "updated_at": at,
    }  # fmt: skip
    assert (file.want, file.plan, file.report) == ("", "", "")


def test_link_is_not_a_request(paths: RepoPaths, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("---\ntitle: secret\n---\n")
    (paths.requests.path / "leak.md").symlink_to(secret)
    (paths.requests.path / "pipe.md").mkdir()
    assert paths.requests.ids() == []
    for name in ("leak", "pipe", "missing"):
        with pytest.raises(AgentError) as refused:
            paths.requests.read(name)
        assert refused.value.code == AgentCode.REQUEST_NOT_FOUND


def test_change_of_an_editor_meanwhile_is_kept(paths: RepoPaths) -> None:
    request_id = paths.requests.create(NewRequest(title="T", base="main", want="a"), NOW).request_id
    path = paths.requests.file_of(request_id)
    seen: list[str] = []

    def change(file: RequestFile) -> RequestFile:
        if not seen:
            path.write_text(path.read_text().replace("title: T", "title: By hand"))
        seen.append(file.title)
        return file.changed({"status": "done"})

    changed = paths.requests.change(request_id, change, NOW)
    assert seen == ["T", "By hand"]
    assert (changed.title, changed.status) == ("By hand", RequestStatus.DONE)


def test_same_answer_to_two_questions_is_written_twice() -> None:
    file = RequestFile.parse("x", new_request_text({"title": "T"}, "a"))
    keys = [answer_key("001", "plan", f"question-{number}") for number in (1, 2)]
    # Each of them by gateway and worker.
    for key in (keys[0], keys[0], keys[1], keys[0], keys[1]):
        file = file.answered(" Yes ", key=key, at=NOW)
    answers = [
        f"### 回答 (2026-11-17 12:30)\n<!-- aiflow-answer: 001 plan question-{number} -->\n\nYes"
        for number in (1, 2)
    ]
    assert file.want == "\n\n".join(["a", *answers])


def test_answer_that_looks_like_a_key_marks_no_question_as_answered() -> None:
    file = RequestFile.parse("x", new_request_text({"title": "T"}, "a"))
    mark = "<!-- aiflow-answer: 001 plan question-2 -->"
    file = file.answered(f"first\r{mark}", key="001 plan question-1", at=NOW)
    file = file.answered("second", key="001 plan question-2", at=NOW)
    assert f"first\n\\{mark}" in (file.want or "")
    assert (file.want or "").endswith(f"{mark}\n\nsecond")


def test_interrupted_write_leaves_the_file_as_it_was(
    paths: RepoPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    request_id = paths.requests.create(NewRequest(title="T", base="main"), NOW).request_id
    before = paths.requests.read(request_id).raw

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(AgentError, match=r"FILE_NOT_WRITABLE: .* No space .*Free some space"):
        paths.requests.change(request_id, lambda file: file.changed({"status": "done"}), NOW)
    assert paths.requests.read(request_id).raw == before
    assert [path.name for path in paths.requests.path.iterdir()] == [f"{request_id}.md"]


@pytest.mark.parametrize(
    "header",
    [
        # Nine times nine times ...: a few lines, and more texts than fit into any memory.
        "a0: &a0 [x, x]\n"
        + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)),
        "a: &a [*a]\n",
        "".join(f"k{number}: [a, b]\n" for number in range(20_000)),
    ],
    ids=["alias-bomb", "alias-of-itself", "huge"],
)
def test_header_that_would_occupy_the_server_is_a_broken_one(header: str) -> None:
    file = RequestFile.parse("x", f"---\ntitle: t\n{header}---\n\n# 要望\n\nwant\n")
    assert file.problem is not None
    assert (file.title, file.want) == ("x", "want")
    with pytest.raises(AgentError) as refused:
        file.changed({"title": "y"})
    assert refused.value.code == AgentCode.REQUEST_UNREADABLE


@pytest.mark.parametrize("given", ["0", "000", "1234567", "9" * 5000, "-1", "x", "٣"])
def test_number_of_a_run_that_cannot_be_one_is_none(given: str) -> None:
    file = RequestFile.parse("x", f"---\nrun_id: {given}\n---\n")
    assert file.run_number is None
    assert RequestFile.parse("x", "---\nrun_id: 7\n---\n").run_number == "007"


def test_attempt_of_many_digits_is_none() -> None:
    assert RequestFile.parse("x", f"---\nattempt: {'9' * 5000}\n---\n").attempt is None


@pytest.mark.parametrize(
    "text", ["one\r\ntwo", "# 要望", "```\ncode", "### 回答 (2026-01-01 00:00)\nme", " x "]
)
def test_answer_is_appended_once_whatever_it_contains(text: str) -> None:
    """Gateway and worker both append it: one of them may be killed before."""
    file = RequestFile.parse("x", new_request_text({"title": "T"}, ""))
    once = file.answered(text, key="k", at=NOW)
    assert once.raw != file.raw
    assert once.answered(text, key="k", at=NOW).raw == once.raw


def test_errors_name_the_folder_of_the_settings(tmp_path: Path) -> None:
    requests = RepoPaths(tmp_path, requests_dir="docs/wants").requests
    with pytest.raises(AgentError) as refused:
        requests.create(NewRequest(title="x", base="main", request_id="x", want="x" * MAX_FILE_BYTES), NOW)
    assert refused.value.message.startswith("docs/wants/x.md would be, or is, larger")


def test_id_of_a_removed_request_with_a_run_is_not_free(paths: RepoPaths) -> None:
    new = NewRequest(title="T", base="main")
    named = paths.requests.create(new, NOW, {"20261117-t"}).request_id
    assert named == "20261117-t-2"
    with pytest.raises(AgentError) as refused:
        paths.requests.create(NewRequest(title="T", base="main", request_id="one"), NOW, {"one"})
    assert refused.value.code == AgentCode.FILE_ALREADY_EXISTS


@pytest.mark.parametrize("link", ["runs", "runs/x"])
def test_folder_behind_a_link_out_of_the_repository_is_not_created(tmp_path: Path, link: str) -> None:
    repo, outside = tmp_path / "repo", tmp_path / "outside"
    (repo / link).parent.mkdir(parents=True)
    outside.mkdir()
    (repo / link).symlink_to(outside)
    with pytest.raises(AgentError, match="leads out of the repository"):
        checked_folder(repo, repo / "runs" / "x" / "001")
    assert list(outside.iterdir()) == []


def test_file_in_place_of_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("mine")
    with pytest.raises(AgentError, match=r"FILE_NOT_WRITABLE: .*/runs cannot be written: File exists"):
        checked_folder(tmp_path, tmp_path / "runs")
