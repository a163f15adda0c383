"""Checks of JSON Schemas in processes of their own."""
