"""The endpoints of the HTTP API, one module per area; `endpoint_table` has them all."""
