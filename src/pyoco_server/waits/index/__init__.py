"""The read model of waits."""
