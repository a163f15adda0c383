"""Following runs, lists and logs as they change."""
