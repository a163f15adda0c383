"""Flows that workers under test execute."""
