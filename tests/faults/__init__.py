"""The fault suite: real processes under load, killed and paused at random, and the promises checked after.

A *scenario* starts a *stack* (NATS, gateways, workers), lets *clients* submit and cancel runs while a
*villain* does his work, waits until everything has come to rest, and passes a *verdict*. The verdict rests on
two records that no fault can touch: the *history* of every run, which is each write to the runs bucket, and
the *book*, in which tasks write when they begin and end.
"""
