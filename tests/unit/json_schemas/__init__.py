"""Unit tests of JSON Schemas: what is valid, and the texts of what is not."""
