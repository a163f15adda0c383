"""What is read from the output of a coding CLI, and how its command line is made."""

import json
from pathlib import Path

import pytest

from pyoco_server.agent.coding_cli.cli_arguments import cli_arguments
from pyoco_server.agent.coding_cli.cli_reply import CliReply, reply_of
from pyoco_server.agent.coding_cli.fenced_block import MAX_BLOCK_CHARS, FencedBlock, block_in
from pyoco_server.agent.flow.run_log import shown_line


def reply(text: str) -> CliReply:
    block = FencedBlock()
    for line in text.split("\n"):
        block.feed(line)
    return reply_of(block, text)


def test_last_block_counts() -> None:
    other = '```json\n{"summary": "no"}\n```'
    text = f'a\n```aiflow\n{{"summary": "one"}}\n```\n{other}\n~~~ aiflow\n{{"summary": "two"}}\n~~~\nb'
    assert reply(text).summary == "two"


def test_block_that_is_not_closed_does_not_count() -> None:
    assert block_in('```aiflow\n{"summary": "one"}\n```\n```aiflow\n{"summary": "cut') == '{"summary": "one"}'
    assert block_in('```aiflow\n{"a": 1}\n```aiflow\n{"b": 2}\n```') == '{"b": 2}'


def test_block_may_contain_shorter_fences() -> None:
    assert block_in('````aiflow\n{"summary": "```"}\n```\n````') == '{"summary": "```"}\n```'


def test_block_that_is_too_long_is_reported() -> None:
    found = reply("```aiflow\n" + "x" * (MAX_BLOCK_CHARS + 1) + "\n```")
    assert found.problem == "the `aiflow` block is too long"


@pytest.mark.parametrize("content", ["{", "[]", "1", "[" * 100_000])
def test_block_that_is_not_an_object_is_reported(content: str) -> None:
    assert "the `aiflow` block is not" in (reply(f"```aiflow\n{content}\n```").problem or "")


def test_output_without_a_block_says_nothing() -> None:
    assert reply("all done") == CliReply()


@pytest.mark.parametrize("name", ["response", "result"])
def test_block_in_the_json_of_a_cli_is_found(name: str) -> None:
    text = json.dumps({name: 'done\n```aiflow\n{"summary": "inside"}\n```\n', "stats": {}}, indent=2)
    assert reply(text).summary == "inside"


def test_question_needs_a_text() -> None:
    found = reply(
        '```aiflow\n{"question": {"text": "Why?", "choices": ["a", 1, "b"], "why": 3}}\n```'
    ).question
    assert found is not None
    assert (found.text, found.why, found.choices) == ("Why?", "", ("a", "b"))
    assert reply('```aiflow\n{"question": {"why": "x"}}\n```').question is None
    short = reply('```aiflow\n{"question": "Which?"}\n```').question
    assert short is not None
    assert short.text == "Which?"


def test_placeholders_are_replaced_once_and_inside_arguments(tmp_path: Path) -> None:
    template = ["codex", "-m={model}", "{workdir}/x", "{prompt}", "{prompt_file}", "{other}"]
    argv = cli_arguments(
        template, model="m", workdir=Path("/w"), prompt="use {model} \0 $(id)", prompt_file=tmp_path
    )
    assert argv == ["codex", "-m=m", "/w/x", "use {model}   $(id)", str(tmp_path), "{other}"]


def test_prompt_that_is_too_long_for_an_argument_is_named_by_its_file() -> None:
    argv = cli_arguments(
        ["x", "{prompt}"], model="", workdir=Path("/w"), prompt="y" * 200_000, prompt_file=Path("/p")
    )
    assert len(argv[1]) < 200
    assert "/p" in argv[1]


def test_lines_are_shown_without_escapes() -> None:
    assert shown_line("\x1b[31mred\x1b[0m \x1b]0;title\x07<b>\x00\r\u202e日本\t.") == "red <b>日本\t."
