"""Schedules: their times, and the decisions about them."""
