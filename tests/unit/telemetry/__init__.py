"""Settings, errors, logs."""
