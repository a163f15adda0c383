"""Schedules: when runs start by themselves, and what became of each occurrence."""
