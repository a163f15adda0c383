"""The picture of the results; run by a Python that has matplotlib: `plot.py results.json picture.png`."""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt

_PANELS = (
    ("noop_runs_per_s", "No-op runs/s end to end, 2,000 runs", "more is better"),
    ("noop_runs_per_s_sustained", "No-op runs/s, 30 s without a pause", "more is better"),
    ("submits_per_s", "Submits/s, 32 connections", "more is better"),
    ("submit_to_start_p50_ms", "Submit to start on an idle worker, p50 (ms)", "less is better"),
    ("chain_s", "40 tasks of 10 ms in a row (s)", "less is better"),
    ("large_flow_s", "1,000 tasks in a row (s)", "less is better"),
)
_OURS, _PEER, _TEXT = "#1f6feb", "#b6bfca", "#24292f"


def main(results_file: str, picture: str) -> None:
    results = json.loads(Path(results_file).read_text(encoding="utf-8"))
    plt.rcParams.update({"font.size": 9, "text.color": _TEXT, "axes.titleweight": "bold"})
    figure, axes = plt.subplots(3, 2, figsize=(11, 8.5), constrained_layout=True)
    for axis, (key, title, direction) in zip(axes.flat, _PANELS, strict=True):
        _panel(axis, results["peers"], key, f"{title}: {direction}")
    machine = results["machine"]
    figure.suptitle(
        f"pyoco-server and its peers, {machine['cores']} cores, medians of {results['rounds']} rounds, "
        f"{results['taken_at']}. What each of them stores differs: see the table."
    )
    figure.savefig(picture, dpi=130)


def _panel(axis: Any, peers: list[dict[str, Any]], key: str, title: str) -> None:
    values = [peer["medians"].get(key) for peer in peers]
    colours = [_OURS if peer["name"] == "ours" else _PEER for peer in peers]
    places = range(len(peers))
    axis.barh(places, [value or 0 for value in values], color=colours, height=0.7)
    axis.set_yticks(places, [peer["title"] for peer in peers])
    axis.invert_yaxis()
    # It begins over the names: over the bars alone it would not fit.
    axis.set_title(title, loc="left", fontsize=9, x=-0.45)
    axis.set_xticks([])
    axis.spines[["top", "right", "bottom"]].set_visible(False)
    axis.margins(x=0.15)
    for place, value in zip(places, values, strict=True):
        axis.text(value or 0, place, _label(value), va="center", fontsize=9)


def _label(value: float | None) -> str:
    if value is None:
        return " not measured"
    return f" {value:,.0f}" if value >= 100 else f" {value:.3g}"


if __name__ == "__main__":
    main(*sys.argv[1:])
