"""Schedules in the dashboard: the list, one schedule, and its form."""
