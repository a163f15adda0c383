"""`pyoco-server-admin`: what the person who runs the server does. Its commands come with API keys."""

import typer

from pyoco_server.cli.entry import Version, examples, new_app, run

app = new_app(
    invoke_without_command=True,
    help="Administer a pyoco-server. This version has no API keys yet, and so no commands.",
    epilog=examples("pyoco-server-admin --version"),
)


@app.callback()
def admin(ctx: typer.Context, version: Version = False) -> None:
    typer.echo(ctx.get_help())


def main() -> None:
    run(app, "pyoco-server-admin")


if __name__ == "__main__":
    main()
