"""Records of what is observed about the system: alerts and the audit log."""
