"""The smallest flow: one task that does nothing."""

from pyoco import Flow, task


@task
def nothing() -> None: ...


noop = Flow(name="noop") >> nothing
