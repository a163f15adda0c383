"""Prompts on the terminal. They go to the standard error: the standard output is for the result."""

from collections.abc import Sequence
from typing import Protocol

import typer

from pyoco_server.cli.forms.standard_input import typed_line
from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.console import print_note, printable


class Dialogue(Protocol):
    def ask(self, question: str) -> str:
        """The line that was typed; empty for Enter alone."""

    def print(self, line: str) -> None: ...


class TerminalDialogue:
    def ask(self, question: str) -> str:
        suffix = " " if question.endswith("?") else ": "
        try:
            return typed_line(printable(question) + suffix)
        except EOFError:
            raise typer.Abort from None

    def print(self, line: str) -> None:
        print_note(line)


def confirmed(dialogue: Dialogue, question: str, *, default: bool) -> bool:
    while True:
        text = dialogue.ask(f"{question} [{'Y/n' if default else 'y/N'}]").strip()
        if not text:
            return default
        try:
            return yes_or_no(text)
        except ValueError as error:
            dialogue.print(f"! {error}")


def picked(dialogue: Dialogue, question: str, words: Sequence[str], *, default: int | None = None) -> int:
    """The index of the chosen word; Enter chooses the default, if there is one."""
    show_choices(dialogue, words)
    while True:
        text = dialogue.ask(question if default is None else f"{question} [{words[default]}]").strip()
        if not text and default is not None:
            return default
        try:
            return index_of(text, words)
        except ValueError as error:
            dialogue.print(f"! {error}")


def show_choices(dialogue: Dialogue, words: Sequence[str]) -> None:
    numbered = _has_numbers(words)
    for number, word in enumerate(words, start=1):
        dialogue.print(f"  {number}) {word}" if numbered else f"  - {word}")


def index_of(text: str, words: Sequence[str]) -> int:
    """The index of the word, or of its number or unique prefix; ValueError says what is expected."""
    if text in words:
        return words.index(text)
    if _has_numbers(words) and text.isdecimal() and 1 <= int(text) <= len(words):
        return int(text) - 1
    matches = [index for index, word in enumerate(words) if text and word.lower().startswith(text.lower())]
    if len(matches) == 1:
        return matches[0]
    expected = (
        "expected a number from 1 to {count}, or one of them"
        if _has_numbers(words)
        else "expected one of them"
    )
    raise ValueError(f"{text!r}: {localized(expected).format(count=len(words))}: {', '.join(words)}")


def yes_or_no(text: str) -> bool:
    word = text.lower()
    if word in ("y", "yes", "true"):
        return True
    if word in ("n", "no", "false"):
        return False
    raise ValueError(f"{text!r}: {localized('expected y (yes) or n (no)')}")


def _has_numbers(words: Sequence[str]) -> bool:
    """Words that are numbers themselves get no numbers: the input would be ambiguous."""
    return not any(word.isdecimal() for word in words)
