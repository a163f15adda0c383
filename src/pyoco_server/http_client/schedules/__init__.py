"""Calls about schedules."""
