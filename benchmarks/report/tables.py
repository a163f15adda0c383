"""The results as tables, for the terminal and for the page alike."""

from dataclasses import dataclass

from benchmarks.report.figures import OWN, SHOWN, Figure
from benchmarks.report.results import PeerResult, Results
from benchmarks.report.targets import verdicts


@dataclass(frozen=True)
class Table:
    title: str
    header: list[str]
    rows: list[list[str]]
    numbers: bool = True  # whether all but the first column are numbers

    def markdown(self) -> str:
        others = "---:" if self.numbers else "---"
        lines = [self.header, ["---"] + [others] * (len(self.header) - 1), *self.rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def comparison(results: Results) -> Table:
    """One row for each figure. A peer's cell says how many times better ours is."""
    ours = results.medians("ours")
    measured = [figure for figure in SHOWN if any(figure.key in peer.medians for peer in results.peers)]
    return Table(
        title="medians; in brackets: how many times better ours is",
        header=["", *(peer.title for peer in results.peers)],
        rows=[[figure.label, *(_cell(figure, peer, ours) for peer in results.peers)] for figure in measured],
    )


def own(results: Results) -> Table:
    medians = results.medians("ours")
    rows = [[figure.label, figure.text(medians[figure.key])] for figure in OWN if figure.key in medians]
    return Table(title="ours alone", header=["", "median"], rows=rows)


def target_table(results: Results) -> Table:
    rows = [[found.target, found.reached, found.spread, found.verdict] for found in verdicts(results)]
    header = ["target", "median", "all rounds", ""]
    return Table(title="targets", header=header, rows=rows, numbers=False)


def durability(results: Results) -> Table:
    """How each peer was set up, what survives a crash, and when a run counts as ended."""
    return Table(
        title="what was measured",
        header=["", "setup", "what survives a crash", "a run has ended when"],
        rows=[[peer.title, peer.setup, peer.durability, peer.done] for peer in results.peers],
        numbers=False,
    )


def not_measured(results: Results) -> Table:
    rows = [
        [peer.title, session, f"not measured: {reason}"]
        for peer in results.peers
        for session, reason in peer.not_measured.items()
    ]
    return Table(title="not measured", header=["", "measure", "why"], rows=rows, numbers=False)


def _cell(figure: Figure, peer: PeerResult, ours: dict[str, float]) -> str:
    value = peer.medians.get(figure.key)
    if value is None:
        return "–"
    text = figure.text(value)
    if peer.name == "ours" or figure.key not in ours:
        return text
    advantage = figure.advantage(ours[figure.key], value)
    return text if advantage is None else f"{text} ({advantage:.1f}×)"
