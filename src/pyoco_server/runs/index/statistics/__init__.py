"""How runs ended: counts, durations and roll-ups over time."""
