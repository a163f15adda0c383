"""What every request passes: authentication, limits, headers, counts."""
