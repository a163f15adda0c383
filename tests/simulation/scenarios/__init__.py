"""Small scenarios, one module for each area: 2 gateways, 2 workers, a few runs.

A module has `FLOWS`, the settings that differ from `SETTINGS` of the world, the kinds of faults that may happen
besides those of every scenario, and `play`, which sends the requests of users. Everything else is decided by
the seed.
"""
