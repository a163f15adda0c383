"""Unit tests of the audit log."""
