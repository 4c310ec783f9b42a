"""`mooring logs`: what a pod's container wrote, on any cluster that a kubeconfig leads to."""

from __future__ import annotations

import asyncio
import os
import sys

import click

from mooring.cli.durations import parse_duration
from mooring.cli.nodes import DATA_DIR
from mooring.cli.parts import KUBECONFIG


@click.command()
@click.argument("pod")
@click.option("-n", "--namespace", default="default", show_default=True)
@click.option("-c", "--container", help="Needed if the pod has several.")
@click.option("-f", "--follow", is_flag=True, help="Go on until the container ends.")
@click.option("-p", "--previous", is_flag=True, help="Of the container's attempt before the present one.")
@click.option("--tail", type=click.IntRange(0), help="The last lines only.")
@click.option("--since", metavar="DURATION", help="No older than this: 30s, 5m, 2h.")
@click.option("--timestamps", is_flag=True, help="The time of each line before it.")
@KUBECONFIG
@DATA_DIR
def logs(
    pod: str,
    namespace: str,
    container: str | None,
    follow: bool,
    previous: bool,
    tail: int | None,
    since: str | None,
    timestamps: bool,
    kubeconfig: str | None,
    data_dir: str | None,
) -> None:
    """Shows what a container of POD wrote."""
    from mooring.cluster.layout import open_layout
    from mooring.kube import config
    from mooring.kube.objects import Pod

    layout = open_layout(data_dir)
    given = kubeconfig or (str(layout.kubeconfig) if layout.kubeconfig.exists() else None)
    query = {
        "container": container,
        "follow": "true" if follow else None,
        "previous": "true" if previous else None,
        "tailLines": None if tail is None else str(tail),
        "sinceSeconds": None if since is None else str(parse_duration(since)),
        "timestamps": "true" if timestamps else None,
    }

    async def show() -> None:
        client = config.connect(os.environ, given)
        try:
            path = Pod.RESOURCE.path(namespace, pod, "log")
            async for piece in client.text(
                path, [(key, value) for key, value in query.items() if value is not None]
            ):
                sys.stdout.buffer.write(piece)
                sys.stdout.buffer.flush()
        finally:
            await client.close()

    try:
        asyncio.run(show())
    except KeyboardInterrupt:
        sys.exit(130)


COMMANDS = (logs,)
