"""Endpoints of alerts and the audit log; `GET /statistics` is in system_endpoints.py."""
