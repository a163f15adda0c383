"""Runs under load while processes are killed and paused, and checks of what the product promises.

A scenario starts a stack (NATS, gateways, workers). Clients submit and cancel runs while a fault injector
kills and pauses processes. When all runs have ended, the checks compare what clients were answered with two
records that no fault affects: the history (every write to the runs bucket) and the execution log, to which
tasks append when they start and end.
"""
