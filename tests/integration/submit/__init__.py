"""Submit, cancel, rerun, bulk operations, dead letters."""
