"""Asking somebody at a terminal; questions go to the standard error, since the output is for the result."""

from collections.abc import Sequence
from typing import Protocol

import typer

from pyoco_server.cli.views.console import printable, say


class Dialogue(Protocol):
    """Whoever can be asked."""

    def ask(self, question: str) -> str:
        """A line of text; nothing but Enter is an empty one."""

    def tell(self, line: str) -> None: ...


class AtTerminal:
    """The person who started the command; Ctrl-C and Ctrl-D leave it."""

    def ask(self, question: str) -> str:
        answer: str = typer.prompt(
            printable(question),
            default="",
            show_default=False,
            prompt_suffix=" " if question.endswith("?") else ": ",
            err=True,
        )
        return answer

    def tell(self, line: str) -> None:
        say(line)


def confirmed(dialogue: Dialogue, question: str, *, default: bool) -> bool:
    while True:
        text = dialogue.ask(f"{question} [{'Y/n' if default else 'y/N'}]").strip()
        if not text:
            return default
        try:
            return yes_or_no(text)
        except ValueError as error:
            dialogue.tell(f"! {error}")


def picked(dialogue: Dialogue, question: str, words: Sequence[str], *, default: int | None = None) -> int:
    """Which of the words: each has a number to type; Enter takes the default, if there is one."""
    show_choices(dialogue, words)
    while True:
        text = dialogue.ask(question if default is None else f"{question} [{words[default]}]").strip()
        if not text and default is not None:
            return default
        try:
            return place_of(text, words)
        except ValueError as error:
            dialogue.tell(f"! {error}")


def show_choices(dialogue: Dialogue, words: Sequence[str]) -> None:
    numbered = _numbered(words)
    for number, word in enumerate(words, start=1):
        dialogue.tell(f"  {number}) {word}" if numbered else f"  - {word}")


def place_of(text: str, words: Sequence[str]) -> int:
    """Where the word is that somebody has typed, or its number; ValueError says what was wanted."""
    if text in words:
        return words.index(text)
    if _numbered(words) and text.isdecimal() and 1 <= int(text) <= len(words):
        return int(text) - 1
    alike = [place for place, word in enumerate(words) if text and word.lower().startswith(text.lower())]
    if len(alike) == 1:
        return alike[0]
    wanted = f"a number from 1 to {len(words)}, or one of them" if _numbered(words) else "one of them"
    raise ValueError(f"{text!r}: wanted {wanted}: {', '.join(words)}")


def yes_or_no(text: str) -> bool:
    word = text.lower()
    if word in ("y", "yes", "true"):
        return True
    if word in ("n", "no", "false"):
        return False
    raise ValueError(f"{text!r}: wanted y (yes) or n (no)")


def _numbered(words: Sequence[str]) -> bool:
    """Not where the words are numbers themselves: nobody would know which is meant."""
    return not any(word.isdecimal() for word in words)
