"""Stored records of schedules."""
