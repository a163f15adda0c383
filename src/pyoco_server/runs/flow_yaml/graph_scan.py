"""Finds the names and arguments of a graph: pyoco's parser checks the syntax, then its tokens are scanned.

pyoco's terms have no positions, its tokens do. In a valid graph the tokens are enough to tell a task from a
case, a node's name or an argument.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from pyoco.dsl.graph import GraphParser, GraphSyntaxError, Token, tokenize_graph

from pyoco_server.runs.flow_yaml.source_map import Location
from pyoco_server.runs.flow_yaml.yaml_problems import ProblemList, did_you_mean

# The arguments of each control word; the first is required, and is an expression.
ARGUMENTS: Final = {
    "switch": ("on",),
    "repeat": ("count", "collect"),
    "foreach": ("over", "item", "index", "collect"),
    "until": ("cond", "max_iter", "collect"),
}
_TOKEN_NAMES: Final = {
    "SHIFT": "'>>'",
    "LPAREN": "'('",
    "RPAREN": "')'",
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "COLON": "':'",
    "SEMI": "';'",
    "COMMA": "','",
    "EQUAL": "'='",
    "IDENT": "a name",
    "STRING": "a quoted text",
    "NUMBER": "a number",
    "TEMPLATE": "an expression",
    "EOF": "the end",
}
_POSITION: Final = re.compile(r" at position (\d+)")


@dataclass(frozen=True, slots=True)
class GraphText:
    """A graph, a pipe or a quoted branch, and the location of each of its characters in the file."""

    field: str
    text: str
    location: Callable[[int], Location]

    def branch(self, token: Token) -> "GraphText":
        """The graph inside a quoted branch of a switch."""
        offsets: list[int] = []
        at = token.pos + 1
        for _ in token.value:
            at += self.text[at] == "\\"
            offsets.append(at)
            at += 1
        offsets.append(at)
        return GraphText(self.field, token.value, lambda position: self.location(offsets[position]))


@dataclass(frozen=True, slots=True)
class Reference:
    """A task or a pipe that a graph names."""

    name: str
    source: GraphText
    position: int
    depth: int  # how many braces it stands in
    node: str | None = None  # the name it is given in this graph: `node: task`

    @property
    def location(self) -> Location:
        return self.source.location(self.position)


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a control word, as it is written."""

    word: str
    key: str
    written: str
    source: GraphText
    position: int

    @property
    def location(self) -> Location:
        return self.source.location(self.position)


@dataclass(slots=True)
class GraphScan:
    tasks: list[Reference] = field(default_factory=list)
    pipes: list[Reference] = field(default_factory=list)
    arguments: list[Argument] = field(default_factory=list)
    depth: int = 0


class _Unparsable(Exception):
    def __init__(self, message: str, location: Location) -> None:
        super().__init__(message)
        self.location = location


def scan_graph(text: GraphText, problems: ProblemList) -> GraphScan | None:
    """The names and arguments of the graph; None when it cannot be parsed. Problems are reported."""
    try:
        tokens = _parsed_tokens(text)
    except _Unparsable as exc:
        problems.add(text.field, str(exc), exc.location)
        return None
    scan = GraphScan()
    _Scanner(text, tokens, scan, problems).run()
    return scan


def _parsed_tokens(text: GraphText) -> list[Token]:
    try:
        tokens: list[Token] = tokenize_graph(text.text)
    except GraphSyntaxError as exc:
        found = _POSITION.search(str(exc))
        raise _Unparsable(_readable(exc), text.location(int(found[1]) if found else 0)) from exc
    parser = GraphParser(tokens)
    try:
        parser.parse()
    except RecursionError as exc:
        raise _Unparsable("the graph is nested too deeply", text.location(0)) from exc
    except GraphSyntaxError as exc:
        passed = tokens[max(0, parser.idx - 2) : parser.idx]
        if [token.kind for token in passed] == ["COLON", "STRING"]:
            _parsed_tokens(text.branch(passed[1]))  # reports the problem inside the quoted branch
        raise _Unparsable(
            _readable(exc), text.location(tokens[min(parser.idx, len(tokens) - 1)].pos)
        ) from exc
    return tokens


def _readable(exc: GraphSyntaxError) -> str:
    """pyoco's message in the terms of flow.yaml, with a hint where one is known."""
    message = _POSITION.sub("", str(exc)).rstrip(".")
    message = re.sub(r"'([A-Z]+)'", lambda found: _TOKEN_NAMES.get(found[1], found[0]), message)
    message = message[:1].lower() + message[1:]
    message = re.sub(r"^expected one of \[(.*)\] but got", r"expected '>>' or \1 but got", message)
    message = message.replace("empty pipeline before token", "a task is missing before")
    if re.search(r"unexpected character '[&|]'", message):
        return f"{message}; parallel branches can be written in a Python flow only"
    if message.startswith("unexpected character"):
        return f"{message}; names are made of letters, digits and '_'"
    if unknown := re.match(r"unknown callable term '(.*)'", message):
        return f"{message}{did_you_mean(unknown[1], [*ARGUMENTS, 'pipe'])}"
    return message


class _Scanner:
    """Scans the tokens of a valid graph."""

    def __init__(
        self, text: GraphText, tokens: list[Token], scan: GraphScan, problems: ProblemList, depth: int = 0
    ) -> None:
        self._text = text
        self._tokens = tokens
        self._scan = scan
        self._problems = problems
        self._outer_depth = depth
        self._at = 0
        self._case_begins = False
        self._braces: list[set[str]] = []  # the cases seen in each open brace

    @property
    def _depth(self) -> int:
        return self._outer_depth + len(self._braces)

    def run(self) -> None:
        while (token := self._tokens[self._at]).kind != "EOF":
            following = self._tokens[self._at + 1].kind
            if self._case_begins and following == "COLON":
                self._case(token)
            elif token.kind != "IDENT":
                self._punctuation(token)
            elif following == "LPAREN":
                self._call(token)
            elif following == "COLON":
                self._task(self._tokens[self._at + 2], node=token.value)
                self._at += 3
            else:
                self._task(token)
                self._at += 1

    def _task(self, token: Token, node: str | None = None) -> None:
        self._scan.tasks.append(Reference(token.value, self._text, token.pos, self._depth, node))

    def _punctuation(self, token: Token) -> None:
        if token.kind == "RBRACE":
            self._braces.pop()
        self._case_begins = token.kind == "SEMI"
        self._at += 1

    def _case(self, key: Token) -> None:
        is_default = key.kind == "IDENT" and key.value == "default"
        # pyoco compares cases as text; the empty name stands for the default case.
        seen, name = self._braces[-1], "" if is_default else f"={key.value}"
        if name in seen:
            message = f"the case {key.value!r} is there twice"
            self._problems.add(self._text.field, message, self._text.location(key.pos))
        seen.add(name)
        self._case_begins = False
        self._at += 2
        branch = self._tokens[self._at]
        if branch.kind == "STRING":
            inner = self._text.branch(branch)
            _Scanner(inner, tokenize_graph(inner.text), self._scan, self._problems, self._depth).run()
            self._at += 1

    def _call(self, word: Token) -> None:
        close = self._at + 2
        while self._tokens[close].kind != "RPAREN":
            close += 1
        inside = self._tokens[self._at + 2 : close]
        if word.value == "pipe":
            self._scan.pipes.append(Reference(inside[0].value, self._text, inside[0].pos, self._depth))
            self._at = close + 1
            return
        self._arguments(word.value, inside, self._tokens[close].pos)
        self._braces.append(set())
        self._scan.depth = max(self._scan.depth, self._depth)
        self._case_begins = word.value == "switch"
        self._at = close + 2

    def _arguments(self, word: str, tokens: list[Token], end: int) -> None:
        """The tokens between the parentheses are `key = value`, with commas between them."""
        seen: set[str] = set()
        for index in range(0, len(tokens), 4):
            key, value = tokens[index], tokens[index + 2]
            if key.value not in ARGUMENTS[word]:
                hint = did_you_mean(key.value, ARGUMENTS[word])
                self._report(key, f"{word}() has no argument {key.value!r}{hint}")
            elif key.value in seen:
                self._report(key, f"the argument {key.value!r} is there twice")
            else:
                stop = tokens[index + 3].pos if index + 3 < len(tokens) else end
                written = self._text.text[value.pos : stop]
                self._scan.arguments.append(Argument(word, key.value, written, self._text, value.pos))
            seen.add(key.value)

    def _report(self, token: Token, message: str) -> None:
        self._problems.add(self._text.field, message, self._text.location(token.pos))
