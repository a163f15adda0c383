"""The read model of runs: an SQLite file of this gateway, filled from the runs bucket."""
