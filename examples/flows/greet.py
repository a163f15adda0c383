"""The smallest flow: one task, one parameter."""

from pyoco import Flow, task


@task
def say_hello(name: str = "world") -> str:
    greeting = f"Hello, {name}!"
    print(greeting)
    return greeting


greet = Flow("greet") >> say_hello
