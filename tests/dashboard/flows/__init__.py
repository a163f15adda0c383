"""Flows and files of runs in the dashboard."""
