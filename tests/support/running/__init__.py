"""Gateways, workers and runs under test."""
