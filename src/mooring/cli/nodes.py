"""`mooring node …`: the operator's words about a node of the cluster that `mooring up` runs, or of any
cluster."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

from mooring.cli.output import fail

if TYPE_CHECKING:
    from mooring.kube.client import Client

DATA_DIR = click.option(
    "--data-dir", help="The cluster's data directory. Default: MOORING_DATA_DIR, then /var/lib/mooring."
)

KUBECONFIG = click.option(
    "--kubeconfig",
    help="Default: that of the cluster in the data directory, then KUBECONFIG, then ~/.kube/config.",
)


@click.group()
def node() -> None:
    """Stops, kills or starts a node's machine, cuts and heals its links; says that a node is dead."""


def _say(command: str, name: str, data_dir: str | None, **options: str | float) -> None:
    from mooring.cluster.control import say
    from mooring.cluster.layout import open_layout

    click.echo(asyncio.run(say(open_layout(data_dir).control, command, name, options)))


@node.command()
@click.argument("name")
@DATA_DIR
def stop(name: str, data_dir: str | None) -> None:
    """Shuts a node's machine down cleanly: pods end, volumes are unmounted, then the power goes."""
    _say("stop", name, data_dir)


@node.command()
@click.argument("name")
@DATA_DIR
def kill(name: str, data_dir: str | None) -> None:
    """Cuts a node's power: what was not synced to disk is lost."""
    _say("kill", name, data_dir)


@node.command()
@click.argument("name")
@DATA_DIR
def start(name: str, data_dir: str | None) -> None:
    """Boots a node's machine again."""
    _say("start", name, data_dir)


@node.command()
@click.argument("name")
@click.option(
    "--from",
    "far",
    type=click.Choice(["all", "api", "peers", "storage"]),
    default="all",
    show_default=True,
    help="The other end: everything, the API server, other nodes and their pods, the servers of storage.",
)
@click.option(
    "--direction",
    type=click.Choice(["both", "in", "out"]),
    default="both",
    show_default=True,
    help="As the node sees it.",
)
@DATA_DIR
def cut(name: str, far: str, direction: str, data_dir: str | None) -> None:
    """Cuts a node's links: its packets are dropped, not refused, also those of open connections.

    Several cuts add up. What runs on the node goes on running, and goes on writing to its volumes.
    """
    _say("cut", name, data_dir, far=far, direction=direction)


@node.command()
@click.argument("name")
@DATA_DIR
def heal(name: str, data_dir: str | None) -> None:
    """Takes all cuts, delay and loss of a node's links away."""
    _say("heal", name, data_dir)


@node.command()
@click.argument("name")
@click.option(
    "--delay", default="0", show_default=True, metavar="TIME", help="Added in each direction: 200ms, 1.5s."
)
@click.option(
    "--loss", default="0%", show_default=True, metavar="PERCENT", help="Of the packets each way: 10%."
)
@DATA_DIR
def worsen(name: str, delay: str, loss: str, data_dir: str | None) -> None:
    """Makes a node's links slow or lossy, in the place of how bad they were; cuts stay."""
    from mooring.cli.durations import parse_delay, parse_percent

    _say("worsen", name, data_dir, delay=parse_delay(delay), loss=parse_percent(loss))


def _ask(work: Callable[[Client], Awaitable[str]], kubeconfig: str | None, data_dir: str | None) -> None:
    """Prints what `work` answers, or why it was refused."""
    from mooring.cluster.layout import ClusterError, open_layout
    from mooring.kube import config

    layout = open_layout(data_dir)
    given = kubeconfig or (str(layout.kubeconfig) if layout.kubeconfig.exists() else None)

    async def run() -> str:
        client = config.connect(os.environ, given)
        try:
            return await work(client)
        finally:
            await client.close()

    try:
        click.echo(asyncio.run(run()))
    except ClusterError as error:
        fail(str(error))


@node.command("confirm-dead")
@click.argument("name")
@click.option(
    "--uid", default="", help="Which registration of the node is dead, where the Node object is gone."
)
@KUBECONFIG
@DATA_DIR
def confirm_dead(name: str, uid: str, kubeconfig: str | None, data_dir: str | None) -> None:
    """States that a node's machine is off and writes nothing any more, so that its volumes may move.

    Sets the taint node.kubernetes.io/out-of-service, and writes the statement on the node's
    VolumeAttachments, also after its Node object is gone. Refused while the node still answers; void once it
    reports again. Say it only if you know it: if the machine still runs, two nodes may write one volume.
    """
    from mooring.cluster.confirm_dead import confirm
    from mooring.kube.times import wall_clock

    _ask(lambda client: confirm(client, name, uid=uid, by=_user(), now=wall_clock), kubeconfig, data_dir)


@click.command("break-attachment")
@click.argument("name", metavar="PV")
@click.option(
    "--confirm", "confirmed", is_flag=True, help="It is certain that nothing writes to the volume any more."
)
@KUBECONFIG
@DATA_DIR
def break_attachment(name: str, confirmed: bool, kubeconfig: str | None, data_dir: str | None) -> None:
    """Takes a PersistentVolume from its node without asking. Without --confirm: says what that would do.

    The last resort for storage that cannot cut a node off (iSCSI, FC, NFS). If a process still writes there,
    the volume's content is lost.
    """
    from mooring.cluster.break_attachment import break_attachment
    from mooring.kube.times import wall_clock

    _ask(
        lambda client: break_attachment(client, name, confirmed=confirmed, by=_user(), now=wall_clock),
        kubeconfig,
        data_dir,
    )


def _user() -> str:
    return os.environ.get("SUDO_USER") or os.environ.get("USER") or f"uid {os.getuid()}"


COMMANDS = (node, break_attachment)
