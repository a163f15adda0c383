"""The audit log: who did what to runs, schedules, hooks, workers, wheels and keys."""
