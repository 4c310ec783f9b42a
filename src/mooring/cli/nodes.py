"""`mooring node …`: the operator's words about a node of the cluster that `mooring up` runs, or of any cluster."""

from __future__ import annotations

import asyncio
import os

import click

from mooring.cli.output import fail

DATA_DIR = click.option(
    "--data-dir", help="The cluster's data directory. Default: MOORING_DATA_DIR, then /var/lib/mooring."
)


@click.group()
def node() -> None:
    """Stop, kill or start a node's machine; say that a node is dead."""


def _say(command: str, name: str, data_dir: str | None) -> None:
    from mooring.cluster.control import say
    from mooring.cluster.layout import open_layout

    click.echo(asyncio.run(say(open_layout(data_dir).control, command, name)))


@node.command()
@click.argument("name")
@DATA_DIR
def stop(name: str, data_dir: str | None) -> None:
    """Shut a node's machine down cleanly: pods end, volumes are unmounted, then the power goes."""
    _say("stop", name, data_dir)


@node.command()
@click.argument("name")
@DATA_DIR
def kill(name: str, data_dir: str | None) -> None:
    """Cut a node's power: what was not synced to disk is lost."""
    _say("kill", name, data_dir)


@node.command()
@click.argument("name")
@DATA_DIR
def start(name: str, data_dir: str | None) -> None:
    """Boot a node's machine again."""
    _say("start", name, data_dir)


@node.command("confirm-dead")
@click.argument("name")
@click.option(
    "--kubeconfig", help="Default: that of the cluster in the data directory, then KUBECONFIG, then ~/.kube/config."
)
@DATA_DIR
def confirm_dead(name: str, kubeconfig: str | None, data_dir: str | None) -> None:
    """State that a node's machine is off and writes nothing any more, so that its volumes may move.

    Sets the taint node.kubernetes.io/out-of-service. Refused while the node still answers. Say it only if you know
    it: if the machine still runs, two nodes may write one volume.
    """
    from mooring.cluster.confirm_dead import confirm
    from mooring.cluster.layout import ClusterError, open_layout
    from mooring.kube import config
    from mooring.kube.times import wall_clock

    layout = open_layout(data_dir)
    given = kubeconfig or (str(layout.kubeconfig) if layout.kubeconfig.exists() else None)

    async def run() -> str:
        client = config.connect(os.environ, given)
        try:
            return await confirm(client, name, now=wall_clock)
        finally:
            await client.close()

    try:
        click.echo(asyncio.run(run()))
    except ClusterError as error:
        fail(str(error))


COMMANDS = (node,)
