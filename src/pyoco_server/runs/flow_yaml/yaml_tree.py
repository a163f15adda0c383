"""Parses YAML into a tree of nodes with line and column.

The tree is built from the parser's events, without recursion and without constructing objects: a hostile file
(deep nesting, aliases that multiply, tags that name classes) is refused while it is read.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import yaml

from pyoco_server.errors import InvalidRequest
from pyoco_server.runs.flow_yaml.source_map import START, LineMap, Location, ScalarMap
from pyoco_server.runs.flow_yaml.yaml_problems import problem

MAX_DEPTH: Final = 32
MAX_ALIAS_NODES: Final = 10_000  # values that aliases may add to what is written in the file
MAX_ALIAS_CHARS: Final = 1_000_000  # and characters

DOCUMENT: Final = "workflow"  # the field of a problem of the file as a whole

# libyaml is about twenty times faster; on some platforms PyYAML is built without it.
_LOADER: type[yaml.SafeLoader] | type[yaml.CSafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_RESOLVER: Final = yaml.resolver.Resolver()
_CORE: Final = "tag:yaml.org,2002:"
_SCALAR_TAGS: Final = frozenset(_CORE + name for name in ("str", "int", "float", "bool", "null"))
# On a line that YAML cannot read: braces and ": " have a meaning in YAML too.
_GRAPH: Final = re.compile(r"\b(?:graph|switch|repeat|foreach|until)\b")
_UNPRINTABLE: Final = yaml.reader.Reader.NON_PRINTABLE


@dataclass(slots=True, kw_only=True, eq=False)
class Node:
    """One value of the file. `nodes`, `chars` and `depth` are what an alias of it adds."""

    line: int
    column: int
    nodes: int = 1
    chars: int = 0
    depth: int = 0  # of lists and mappings

    @property
    def location(self) -> Location:
        return Location(self.line, self.column)


@dataclass(slots=True, kw_only=True, eq=False)
class Scalar(Node):
    text: str
    kind: str  # the tag's last word: str, int, float, bool, null, timestamp, merge, value
    style: str
    raw: str  # what is written in the file, quotes and indentation included

    def source_map(self) -> ScalarMap:
        return ScalarMap(text=self.text, raw=self.raw, style=self.style, start=self.location)


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


def refusal(message: str, location: Location, value: str | None = None) -> InvalidRequest:
    """The file cannot be read any further."""
    return InvalidRequest(problems=[problem(DOCUMENT, message, location, value)])


def read_tree(source: bytes) -> Node:
    """The file's only document, or InvalidRequest with the location where parsing stopped."""
    text = _decoded(source)
    if unprintable := _UNPRINTABLE.search(text):
        location = LineMap(text).location(unprintable.start())
        raise refusal(f"the control character U+{ord(unprintable.group()):04X} is not allowed", location)
    composer = _Composer(text)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            composer.take(event)
    except yaml.MarkedYAMLError as exc:
        raise _syntax_refusal(exc, text) from exc
    except (yaml.YAMLError, ValueError, OverflowError) as exc:
        # The error of chr() in PyYAML's scanner, for an escape such as "\UFFFFFFFF".
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
        raise refusal(message, LineMap(before).location(len(before))) from exc


def _syntax_refusal(exc: yaml.MarkedYAMLError, text: str) -> InvalidRequest:
    mark = exc.problem_mark or exc.context_mark
    location = START if mark is None else Location(mark.line + 1, mark.column + 1)
    reason = " ".join(part for part in (exc.problem, exc.context) if part)
    if mark is not None and text[mark.index : mark.index + 1] == "\t":
        reason += "; indent with spaces, not with a tab"
    elif mark is not None and _GRAPH.search(text[text.rfind("\n", 0, mark.index) + 1 : mark.index]):
        reason += "; put the graph in quotes, or on lines of its own below 'graph: |'"
    return refusal(f"this is not valid YAML: {reason}", location)


class _Composer:
    """Composes events to nodes, with a list of open collections instead of recursion."""

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
                    raise refusal("a file holds one document; remove what follows '---'", _location(event))
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
        location = _location(event)
        tag = event.tag
        if tag is None or tag == "!":
            tag = str(_RESOLVER.resolve(yaml.ScalarNode, event.value, event.implicit))  # type: ignore[no-untyped-call]
        elif tag not in _SCALAR_TAGS:
            raise _tag_refusal(tag, location)
        if not event.value.isascii() and re.search("[\ud800-\udfff]", event.value):
            raise refusal("a surrogate is not a character; write the character itself", location)
        assert event.start_mark is not None
        assert event.end_mark is not None
        return Scalar(
            line=location.line,
            column=location.column,
            chars=len(event.value),
            text=event.value,
            kind=tag.removeprefix(_CORE),
            style=event.style or "",
            raw=self._text[event.start_mark.index : event.end_mark.index],
        )

    def _collection(self, event: yaml.CollectionStartEvent) -> Collection:
        location = _location(event)
        if len(self._open) >= MAX_DEPTH:
            raise refusal(f"values are nested more than {MAX_DEPTH} levels deep", location)
        node_type = Sequence if isinstance(event, yaml.SequenceStartEvent) else Mapping
        expected = _CORE + ("seq" if node_type is Sequence else "map")
        if event.tag not in (None, "!", expected):
            raise _tag_refusal(str(event.tag), location)
        return node_type(line=location.line, column=location.column)

    def _aliased(self, event: yaml.AliasEvent) -> Node:
        location, name = _location(event), f"*{event.anchor}"
        node = self._anchors.get(event.anchor or "")
        if node is None:
            raise refusal("this alias has no anchor before it", location, name)
        if node in self._open:
            raise refusal("this alias stands inside its own anchor, so it would never end", location, name)
        self._alias_nodes += node.nodes
        self._alias_chars += node.chars
        if self._alias_nodes > MAX_ALIAS_NODES or self._alias_chars > MAX_ALIAS_CHARS:
            limit = f"{MAX_ALIAS_NODES} values or {MAX_ALIAS_CHARS} characters"
            raise refusal(f"aliases may not expand to more than {limit}", location, name)
        if len(self._open) + node.depth > MAX_DEPTH:
            raise refusal(f"this alias nests values more than {MAX_DEPTH} levels deep", location, name)
        return node


def _location(event: yaml.Event) -> Location:
    assert event.start_mark is not None
    return Location(event.start_mark.line + 1, event.start_mark.column + 1)


def _tag_refusal(tag: str, location: Location) -> InvalidRequest:
    shown = tag.replace(_CORE, "!!")
    return refusal(
        f"the tag {shown!r} is not allowed; write plain text, numbers, lists and mappings", location
    )
