"""`dragoman reload`: a running server reads its keys and limits again."""

from __future__ import annotations

import click

from dragoman.cli.client import request


@click.command("reload")
@click.option("--url", default="http://127.0.0.1:8000", show_default=True, help="The running server.")
def command(url: str) -> None:
    """Have a running server read keys, their limits and their usage now, instead of within seconds.

    Where it needs keys, DRAGOMAN_API_KEY is an operator's. The signal SIGHUP to the server does the same. Stored glossaries
    need no reload: each request reads their newest version.
    """
    request(url, "/v1/reload", method="POST")
