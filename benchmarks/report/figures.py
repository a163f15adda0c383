"""Every figure the benchmark shows: what it is called, its unit, and which way is better."""

from dataclasses import dataclass
from typing import Literal

from benchmarks.comparison.measures import FEW_RUNS, SUSTAINED_SEC


@dataclass(frozen=True)
class Figure:
    key: str
    label: str
    better: Literal["more", "less"]
    digits: int = 0

    def text(self, value: float) -> str:
        return f"{value:,.{self.digits}f}"

    def advantage(self, ours: float, theirs: float) -> float | None:
        """How many times better ours is; None where nothing can be compared."""
        if ours <= 0 or theirs <= 0:
            return None
        return ours / theirs if self.better == "more" else theirs / ours


SHOWN = (
    Figure("submits_per_s", "submits/s, 32 connections", "more"),
    Figure("submits_per_s_sustained", f"the same for {SUSTAINED_SEC:g} s", "more"),
    Figure("submit_p50_ms", "submit p50, ms", "less", 1),
    Figure("submit_p99_ms", "submit p99, ms", "less", 1),
    Figure("noop_runs_per_s", f"no-op runs/s, {FEW_RUNS:,} runs", "more"),
    Figure("noop_runs_per_s_sustained", f"no-op runs/s, {SUSTAINED_SEC:g} s without a pause", "more"),
    Figure("functions_per_s", f"the same {FEW_RUNS:,} as bare functions, where a peer takes them", "more"),
    Figure("growth", "no-op runs/s, without a pause ÷ the few", "more", 2),
    Figure("submit_to_start_p50_ms", "submit to start p50, idle, ms", "less", 2),
    Figure("submit_to_start_p99_ms", "submit to start p99, idle, ms", "less", 2),
    Figure("chain_s", "40 tasks of 10 ms in a row, s", "less", 3),
    Figure("large_flow_s", "1,000 tasks in a row, s", "less", 2),
    Figure("gateway_mb", "gateway memory, MB", "less"),
    Figure("worker_mb", "worker's main process, MB", "less"),
    Figure("worker_child_mb", "worker's largest child process, MB", "less"),
    Figure("total_mb", f"gateway and workers together after {FEW_RUNS:,} runs, MB", "less"),
    Figure("total_mb_sustained", f"gateway and workers together after these {SUSTAINED_SEC:g} s, MB", "less"),
    Figure("cpu_ms_per_run", "CPU per no-op run, from the submit to its end, ms", "less", 2),
    Figure("cpu_ms_per_run_sustained", f"the same in {SUSTAINED_SEC:g} s without a pause, ms", "less", 2),
)
OWN = (
    Figure("cancel_p50_ms", "cancel request to CANCELLED p50, ms", "less", 1),
    Figure("cancel_p99_ms", "cancel request to CANCELLED p99, ms", "less", 1),
    Figure("resume_gap_s", "pause of a run whose worker is killed, s (AckWait 2 s)", "less", 2),
    Figure("resume_repeated_tasks", "tasks executed twice by that", "less"),
)
