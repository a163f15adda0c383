"""The picture of `make bench-growth`; run by a Python that has matplotlib."""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt

_OURS, _PLAIN = "#1f6feb", "#8a94a0"


def main(results_file: str, picture: str) -> None:
    growth = json.loads(Path(results_file).read_text(encoding="utf-8"))
    plt.rcParams.update({"font.size": 9, "axes.titleweight": "bold"})
    figure, (rates, costs) = plt.subplots(1, 2, figsize=(11, 4), constrained_layout=True)
    _curve(rates, growth["ours"], "runs_per_s", "pyoco-server, a run executed", _OURS)
    _curve(rates, growth["plain"], "runs_per_s", "plain client, three writes", _PLAIN)
    rates.set_title("Runs/s over stored runs", loc="left")
    for part, style in (("broker", "-"), ("gateway", "--"), ("worker", ":")):
        _curve(costs, growth["ours"], f"{part}_cpu_ms", part.replace("broker", "NATS"), _OURS, style)
    _curve(costs, growth["plain"], "broker_cpu_ms", "NATS, plain client", _PLAIN)
    costs.set_title("CPU per run, ms", loc="left")
    for axis in (rates, costs):
        axis.set_ylim(bottom=0)
        axis.set_xlabel("stored runs")
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False)
    figure.savefig(picture, dpi=130)


def _curve(
    axis: Any, windows: list[dict[str, float]], key: str, name: str, colour: str, style: str = "-"
) -> None:
    axis.plot(
        [window["stored"] for window in windows],
        [window[key] for window in windows],
        style,
        color=colour,
        label=name,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
