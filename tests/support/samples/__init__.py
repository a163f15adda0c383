"""Inputs that several tests use."""
