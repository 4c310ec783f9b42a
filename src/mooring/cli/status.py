"""`mooring status`: what is where in a cluster, once or live."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import TYPE_CHECKING

import click

from mooring.cli.nodes import DATA_DIR
from mooring.cli.output import fail, log_lines

if TYPE_CHECKING:
    from mooring.cluster.layout import Layout
    from mooring.cluster.tables import Section
    from mooring.kube.client import Client


@click.command()
@DATA_DIR
@click.option(
    "--kubeconfig",
    help="Of another cluster. Default: of the one in the data directory, then KUBECONFIG, then ~/.kube/config.",
)
@click.option("--volumes", is_flag=True, help="How full each pod's volumes are, instead.")
@click.option("-w", "--watch", is_flag=True, help="Goes on until Ctrl-C, and shows each change.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def status(data_dir: str | None, kubeconfig: str | None, volumes: bool, watch: bool, output: str) -> None:
    """Shows nodes, claims, pods and volumes; fences that are not over.

    Of the cluster of `mooring up` also its machines, as they are and as their BMCs say, and storage servers,
    and who is shut out of them (with --watch not). A `?` stands at what a node had said before it fell
    silent.

    With --watch it is drawn anew on a terminal, and elsewhere there is a line for each change.
    """
    from mooring.cluster.layout import open_layout

    if watch and (volumes or output == "json"):
        raise click.UsageError(
            "--watch shows tables of objects: it goes neither with --volumes nor with -o json"
        )
    layout = open_layout(data_dir)
    ours = kubeconfig is None and layout.kubeconfig.exists()
    if watch:
        asyncio.run(_follow(_connect(layout, kubeconfig)))
        return
    shown, note = asyncio.run(_read(layout, kubeconfig, volumes=volumes, ours=ours))
    _print(shown, note, output)


def _connect(layout: Layout, kubeconfig: str | None) -> Client:
    from mooring.kube import config

    if kubeconfig is None and layout.kubeconfig.exists():
        return config.load(layout.kubeconfig)
    try:
        return config.connect(os.environ, kubeconfig)
    except config.NoKubeconfig as error:
        if kubeconfig is not None:
            raise
        fail(f"there is no cluster in {layout.root}: start one with `mooring up`; and there is {error}")


async def _follow(client: Client) -> None:
    from mooring.cluster.live import StatusView, follow

    log_lines("error")
    try:
        await follow(client, StatusView(), sys.stdout)
    finally:
        await client.close()


async def _read(
    layout: Layout, kubeconfig: str | None, *, volumes: bool, ours: bool
) -> tuple[list[Section], str]:
    """The tables, and a note on them."""
    from mooring.cluster import fences, machine_states
    from mooring.cluster.storage import shown as storage_servers
    from mooring.cluster.usage import usage
    from mooring.cluster.view import legend, sections, take
    from mooring.kube.errors import Unreachable

    client = _connect(layout, kubeconfig)
    try:
        if volumes:
            return await usage(client), ""
        snapshot = await take(client)
        shown = sections(snapshot) + await fences.read_section(client)
        for each in (machine_states, storage_servers) if ours else ():
            shown += await each.section(layout.control)
        return shown, legend(snapshot)
    except Unreachable:
        if not ours:
            raise
        fail(f"the cluster in {layout.root} does not answer: start it with `mooring up`")
    finally:
        await client.close()


def _print(shown: list[Section], note: str, output: str) -> None:
    from mooring.cluster.tables import as_json, lines

    if output == "json":
        click.echo(json.dumps(as_json(shown), indent=2))
    else:
        click.echo("\n".join(lines(shown, note)) or "nothing to show")


COMMANDS = (status,)
