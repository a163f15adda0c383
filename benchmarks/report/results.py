"""The results of `make bench` as one JSON record: every round, and the medians."""

import os
import platform
import statistics
import time
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.comparison.measures import Figures

_PARTS = ("broker", "gateway", "worker", "driver")  # a library's driver does what a gateway does


class PeerResult(msgspec.Struct):
    name: str
    title: str
    setup: str = ""
    durability: str = ""
    done: str = ""
    versions: dict[str, str] = {}
    rounds: list[Figures] = []
    not_measured: dict[str, str] = {}  # session, or "all", and why

    @property
    def medians(self) -> Figures:
        keys = dict.fromkeys(key for figures in self.rounds for key in figures)
        found = {
            key: statistics.median(figures[key] for figures in self.rounds if key in figures) for key in keys
        }
        return found | _derived(found)


class Results(msgspec.Struct):
    taken_at: str
    machine: dict[str, Any]
    rounds: int
    quick: bool
    peers: list[PeerResult]

    def medians(self, peer: str) -> Figures:
        return next((found.medians for found in self.peers if found.name == peer), {})

    def each_round(self) -> "list[Results]":
        """The same results, with one round each."""
        return [
            msgspec.structs.replace(
                self,
                peers=[msgspec.structs.replace(peer, rounds=peer.rounds[n : n + 1]) for peer in self.peers],
            )
            for n in range(self.rounds)
        ]

    def write(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        record = msgspec.to_builtins(self)
        for found, peer in zip(record["peers"], self.peers, strict=True):
            found["medians"] = peer.medians
        file.write_bytes(msgspec.json.format(msgspec.json.encode(_rounded(record)), indent=1) + b"\n")

    @classmethod
    def read(cls, file: Path) -> "Results":
        return msgspec.json.decode(file.read_bytes(), type=cls)


def machine() -> dict[str, Any]:
    """The machine that was measured."""
    model = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": platform.system() + " " + platform.release(),
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[0], 2),
    }


def now() -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())


def _derived(medians: Figures) -> Figures:
    """Figures that are computed from others."""
    derived: Figures = {}
    if {"noop_runs_per_s", "noop_runs_per_s_sustained"} <= medians.keys():
        derived["growth"] = medians["noop_runs_per_s_sustained"] / medians["noop_runs_per_s"]
    if "noop_runs_per_s" in medians and "functions_per_s" not in medians:
        # A server of flows executes a flow all the same.
        derived["functions_per_s"] = medians["noop_runs_per_s"]
    for suffix in ("", "_sustained"):
        if f"worker_total_mb{suffix}" in medians:
            derived[f"total_mb{suffix}"] = _sum(medians, f"total_mb{suffix}")
            derived[f"cpu_ms_per_run{suffix}"] = _sum(medians, f"cpu_ms_per_run{suffix}")
    return derived


def _sum(medians: Figures, what: str) -> float:
    return sum(medians.get(f"{part}_{what}", 0.0) for part in _PARTS)


def _rounded(value: Any) -> Any:
    """Five digits are more than the precision of a measurement."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value
