"""Checking a flow.yaml."""
