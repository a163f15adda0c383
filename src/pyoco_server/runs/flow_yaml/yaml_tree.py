"""A YAML text as a tree whose every value knows its line and column, read within limits.

The tree is built from the parser's events, without recursion and without making objects, so that a
hostile file (nesting without end, aliases that multiply, tags that name classes) is refused while it is
read. What the values mean is decided by the reader of the tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import yaml

from pyoco_server.errors import InvalidRequest
from pyoco_server.runs.flow_yaml.source_map import START, LineMap, Place, ScalarMap
from pyoco_server.runs.flow_yaml.yaml_problems import problem

MAX_DEPTH: Final = 32
MAX_ALIAS_NODES: Final = 10_000  # values that aliases may add to what is written in the file
MAX_ALIAS_CHARS: Final = 1_000_000  # and characters

DOCUMENT: Final = "workflow"  # the field that a problem of the file as a whole is reported under

# libyaml is some twenty times faster; PyYAML is built without it on some platforms.
_LOADER: type[yaml.SafeLoader] | type[yaml.CSafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_RESOLVER: Final = yaml.resolver.Resolver()
_CORE: Final = "tag:yaml.org,2002:"
_SCALAR_TAGS: Final = frozenset(_CORE + name for name in ("str", "int", "float", "bool", "null"))
_UNPRINTABLE: Final = yaml.reader.Reader.NON_PRINTABLE


@dataclass(slots=True, kw_only=True, eq=False)
class Node:
    """One value of the file. `nodes`, `chars` and `depth` say what an alias of it adds."""

    line: int
    column: int
    nodes: int = 1
    chars: int = 0
    depth: int = 0  # of lists and mappings

    @property
    def place(self) -> Place:
        return Place(self.line, self.column)


@dataclass(slots=True, kw_only=True, eq=False)
class Scalar(Node):
    text: str
    kind: str  # the tag's last word: str, int, float, bool, null, timestamp, merge, value
    style: str
    raw: str  # what is written in the file, quotes and indentation included

    def source_map(self) -> ScalarMap:
        return ScalarMap(text=self.text, raw=self.raw, style=self.style, start=self.place)


@dataclass(slots=True, kw_only=True, eq=False)
class Collection(Node):
    items: list[Node] = field(default_factory=list)

    def measure(self) -> None:
        self.nodes = 1 + sum(item.nodes for item in self.items)
        self.chars = sum(item.chars for item in self.items)
        self.depth = 1 + max((item.depth for item in self.items), default=0)


class Sequence(Collection):
    __slots__ = ()


class Mapping(Collection):
    """Its items are keys and values in turn, as they were read."""

    __slots__ = ()

    def pairs(self) -> Iterator[tuple[Node, Node]]:
        items = iter(self.items)
        return zip(items, items, strict=True)


def refusal(message: str, place: Place, value: str | None = None) -> InvalidRequest:
    """The file cannot be read any further."""
    return InvalidRequest(problems=[problem(DOCUMENT, message, place, value)])


def read_tree(source: bytes) -> Node:
    """The file's only document, or InvalidRequest with the place where reading stopped."""
    text = _decoded(source)
    if unprintable := _UNPRINTABLE.search(text):
        place = LineMap(text).place(unprintable.start())
        raise refusal(f"the control character U+{ord(unprintable.group()):04X} is not allowed", place)
    composer = _Composer(text)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            composer.take(event)
    except yaml.MarkedYAMLError as exc:
        raise _syntax_refusal(exc, text) from exc
    except (yaml.YAMLError, ValueError, OverflowError) as exc:
        # PyYAML's own scanner lets chr() speak about an escape such as "\UFFFFFFFF".
        raise refusal(f"this is not valid YAML: {exc}", START) from exc
    if composer.root is None:
        raise refusal("the file is empty", START)
    return composer.root


def _decoded(source: bytes) -> str:
    try:
        return source.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        before = exc.object[: exc.start].decode()  # the object has no byte order mark any more
        message = f"the file must be UTF-8; the byte {exc.object[exc.start]:#04x} here is not"
        raise refusal(message, LineMap(before).place(len(before))) from exc


def _syntax_refusal(exc: yaml.MarkedYAMLError, text: str) -> InvalidRequest:
    mark = exc.problem_mark or exc.context_mark
    place = START if mark is None else Place(mark.line + 1, mark.column + 1)
    reason = " ".join(part for part in (exc.problem, exc.context) if part)
    if mark is not None and text[mark.index : mark.index + 1] == "\t":
        reason += "; indent with spaces, not with a tab"
    return refusal(f"this is not valid YAML: {reason}", place)


class _Composer:
    """Puts events together; what is open is kept in a list, so that depth costs no stack."""

    def __init__(self, text: str) -> None:
        self.root: Node | None = None
        self._text = text
        self._open: list[Collection] = []
        self._anchors: dict[str, Node] = {}
        self._alias_nodes = 0
        self._alias_chars = 0

    def take(self, event: yaml.Event) -> None:
        match event:
            case yaml.DocumentStartEvent():
                if self.root is not None:
                    raise refusal("a file holds one document; remove what follows '---'", _place(event))
            case yaml.AliasEvent():
                self._add(self._aliased(event))
            case yaml.ScalarEvent():
                self._anchor(event, node := self._scalar(event))
                self._add(node)
            case yaml.CollectionStartEvent():
                self._anchor(event, opened := self._collection(event))
                self._open.append(opened)
            case yaml.CollectionEndEvent():
                closed = self._open.pop()
                closed.measure()
                self._add(closed)

    def _add(self, node: Node) -> None:
        if self._open:
            self._open[-1].items.append(node)
        else:
            self.root = node

    def _anchor(self, event: yaml.NodeEvent, node: Node) -> None:
        if event.anchor is not None:
            self._anchors[event.anchor] = node

    def _scalar(self, event: yaml.ScalarEvent) -> Scalar:
        place = _place(event)
        tag = event.tag
        if tag is None or tag == "!":
            tag = str(_RESOLVER.resolve(yaml.ScalarNode, event.value, event.implicit))  # type: ignore[no-untyped-call]
        elif tag not in _SCALAR_TAGS:
            raise _tag_refusal(tag, place)
        if not event.value.isascii() and re.search("[\ud800-\udfff]", event.value):
            raise refusal("a surrogate is not a character; write the character itself", place)
        assert event.start_mark is not None
        assert event.end_mark is not None
        return Scalar(
            line=place.line,
            column=place.column,
            chars=len(event.value),
            text=event.value,
            kind=tag.removeprefix(_CORE),
            style=event.style or "",
            raw=self._text[event.start_mark.index : event.end_mark.index],
        )

    def _collection(self, event: yaml.CollectionStartEvent) -> Collection:
        place = _place(event)
        if len(self._open) >= MAX_DEPTH:
            raise refusal(f"values are nested more than {MAX_DEPTH} levels deep", place)
        made = Sequence if isinstance(event, yaml.SequenceStartEvent) else Mapping
        wanted = _CORE + ("seq" if made is Sequence else "map")
        if event.tag not in (None, "!", wanted):
            raise _tag_refusal(str(event.tag), place)
        return made(line=place.line, column=place.column)

    def _aliased(self, event: yaml.AliasEvent) -> Node:
        place, name = _place(event), f"*{event.anchor}"
        node = self._anchors.get(event.anchor or "")
        if node is None:
            raise refusal("this alias has no anchor before it", place, name)
        if node in self._open:
            raise refusal("this alias stands inside its own anchor, so it would never end", place, name)
        self._alias_nodes += node.nodes
        self._alias_chars += node.chars
        if self._alias_nodes > MAX_ALIAS_NODES or self._alias_chars > MAX_ALIAS_CHARS:
            limit = f"{MAX_ALIAS_NODES} values or {MAX_ALIAS_CHARS} characters"
            raise refusal(f"aliases may not expand to more than {limit}", place, name)
        if len(self._open) + node.depth > MAX_DEPTH:
            raise refusal(f"this alias nests values more than {MAX_DEPTH} levels deep", place, name)
        return node


def _place(event: yaml.Event) -> Place:
    assert event.start_mark is not None
    return Place(event.start_mark.line + 1, event.start_mark.column + 1)


def _tag_refusal(tag: str, place: Place) -> InvalidRequest:
    shown = tag.replace(_CORE, "!!")
    return refusal(f"the tag {shown!r} is not allowed; write plain text, numbers, lists and mappings", place)
