"""Calls about the system rather than about one run: statistics, alerts and the audit log."""
