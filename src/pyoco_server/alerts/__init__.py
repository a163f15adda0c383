"""Alerts: conditions of runs, queues and workers that are reported to people."""
