"""Handing the runs of a worker that is gone over to the others."""
