"""Installations of others that this version takes over."""
