"""The lifecycle of runs: submit, cancel, rerun, bulk operations, dead letters."""
