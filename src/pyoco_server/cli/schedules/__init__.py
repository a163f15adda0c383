"""`schedules.yaml`: reading it, comparing it with what is stored, and applying it."""
