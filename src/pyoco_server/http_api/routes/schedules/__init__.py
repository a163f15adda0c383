"""Routes of schedules."""
