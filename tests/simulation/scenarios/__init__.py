"""Small scenarios, one module for each area: 2 gateways, 2 workers, a few runs.

A module has the `SHAPE` of its world, the `FAULTS` that may happen in it besides those of every scenario, and
`play`, which acts as its users. Everything else is decided by the seed.
"""
