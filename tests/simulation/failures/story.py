"""What happened in a world, one line per step: readable, and the same for the same seed."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    at: float
    who: str
    text: str


class Story:
    def __init__(self) -> None:
        self.lines: list[Line] = []

    def add(self, at: float, who: str, text: str) -> None:
        self.lines.append(Line(at, who, text))

    @property
    def text(self) -> str:
        width = max((len(line.who) for line in self.lines), default=0)
        return "\n".join(f"{line.at:10.4f}  {line.who:<{width}}  {line.text}" for line in self.lines)
