"""Small scenarios, one module for each area: 2 gateways, 2 workers, a few runs.

A module has the `SHAPE` of its world, with the mix of its faults, and `play`, which acts as its users.
Everything else is decided by the seed.
"""
