"""`mooring version`: what runs here, for people and for scripts."""

from __future__ import annotations

import json
import platform

import click

from mooring import __version__


@click.command()
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def version(output: str) -> None:
    """Says which version this is, of which Kubernetes its API is, and on which Python it runs."""
    from mooring.apiserver.server import VERSION

    found = {
        "mooring": __version__,
        "kubernetes": VERSION["gitVersion"].partition("+")[0],
        "python": platform.python_version(),
    }
    if output == "json":
        click.echo(json.dumps(found, indent=2))
        return
    for name, value in found.items():
        click.echo(f"{name:12}{value}")


COMMANDS = (version,)
