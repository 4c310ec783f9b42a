"""`mooring node …`: the operator's words about a node of the cluster that `mooring up` runs, or of any
cluster."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mooring.cli.groups import Group
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


@click.group(cls=Group)
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
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Where to write the files. Default: NAME."
)
@click.option(
    "--at",
    type=click.Path(path_type=Path),
    default=Path("/etc/kubernetes/mooring"),
    show_default=True,
    help="Where the machine will have them.",
)
@DATA_DIR
def join(name: str, out: Path | None, at: Path, data_dir: str | None) -> None:
    """Writes what a real kubelet needs to join the cluster of `mooring up --join`, and prints its command
    line.

    The files hold the node's token, which makes its holder this node.
    """
    from mooring.cluster.joining import prepare
    from mooring.cluster.layout import ClusterError, open_layout

    folder = (out or Path(name)).absolute()
    try:
        command = prepare(open_layout(data_dir), name, folder, at)
    except ClusterError as error:
        fail(str(error))
    click.echo(
        f"# copy {folder}/ to {at}/ on the machine (root's, mode 0700), and start there, beside containerd:"
    )
    click.echo(command)


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
    from mooring.cluster.welcome import kept_off

    _say("start", name, data_dir)
    _ask(lambda client: kept_off(client, name), None, data_dir)


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
    """Takes away all that was done to a node on purpose: cuts, delay and loss; a freeze, hanging I/O, a wrong
    clock."""
    _say("heal", name, data_dir)


@node.command()
@click.argument("name")
@DATA_DIR
def reset(name: str, data_dir: str | None) -> None:
    """Cuts a node's power and boots it at once, as its reset button does."""
    _say("reset", name, data_dir)


@node.command()
@click.argument("name")
@DATA_DIR
def panic(name: str, data_dir: str | None) -> None:
    """Stops a node's kernel, as a fatal error of its own does. It stays down until it is started."""
    _say("panic", name, data_dir)


@node.command()
@click.argument("name")
@DATA_DIR
def freeze(name: str, data_dir: str | None) -> None:
    """Stops all that runs on a node until `thaw`. It keeps its memory, and does not know that time passes."""
    _say("freeze", name, data_dir)


@node.command()
@click.argument("name")
@DATA_DIR
def thaw(name: str, data_dir: str | None) -> None:
    """Lets a frozen node go on."""
    _say("thaw", name, data_dir)


@node.command()
@click.argument("name")
@DATA_DIR
def hang(name: str, data_dir: str | None) -> None:
    """From now on I/O on a node's disks does not return; the rest of it goes on. `heal` ends it."""
    _say("hang", name, data_dir)


@node.command(context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.argument("offset")
@DATA_DIR
def skew(name: str, offset: str, data_dir: str | None) -> None:
    """Sets a node's clock OFFSET ahead of this host's (+30s) or behind it (-5m)."""
    from mooring.cli.durations import parse_offset

    _say("skew", name, data_dir, seconds=parse_offset(offset))


@node.command("run", context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.argument("command", nargs=-1, required=True)
@DATA_DIR
def run_in(name: str, command: tuple[str, ...], data_dir: str | None) -> None:
    """Runs a command as root on a node's machine itself, as at its console; its exit status is passed on.

    It needs neither the network nor the API server. One word is a script: run node-1 'uname -a; uptime'.
    """
    from mooring.cluster.control import say
    from mooring.cluster.layout import open_layout

    script = command[0] if len(command) == 1 else shlex.join(command)
    answer = asyncio.run(say(open_layout(data_dir).control, "run", name, {"script": script}))
    done = json.loads(answer)
    click.echo(done["output"], nl=False)
    sys.exit(done["status"] & 0xFF)


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
        if answer := asyncio.run(run()):
            click.echo(answer)
    except ClusterError as error:
        fail(str(error))


@node.command("confirm-dead")
@click.argument("name")
@click.option(
    "--uid", default="", help="Which registration of the node is dead, where the Node object is gone."
)
@click.option(
    "--machine",
    default="",
    help="The systemUUID or provider ID of the machine that is dead, where another one has the node's name now.",
)
@KUBECONFIG
@DATA_DIR
def confirm_dead(name: str, uid: str, machine: str, kubeconfig: str | None, data_dir: str | None) -> None:
    """States that a node's machine is off and writes nothing any more, so that its volumes may move.

    Sets the taint node.kubernetes.io/out-of-service, and writes the statement on the node's
    VolumeAttachments; after its Node object is gone, on those and its fence. Refused while the node still
    answers; void once it reports again. Say it only if you know it: if the machine still runs, two nodes
    may write one volume.
    """
    from mooring.cluster.confirm_dead import confirm
    from mooring.kube.times import wall_clock

    said = partial(confirm, name=name, uid=uid, machine=machine, by=_user(), now=wall_clock)
    _ask(said, kubeconfig, data_dir)


@node.command()
@click.argument("name")
@KUBECONFIG
@DATA_DIR
def welcome(name: str, kubeconfig: str | None, data_dir: str | None) -> None:
    """Takes a node that was said to be dead, and is back, into service again.

    Refused until the node answers and has reported since it was said to be dead. It takes away the taint
    node.kubernetes.io/out-of-service; other taints it names, and leaves.
    """
    from mooring.cluster.welcome import welcome

    _ask(lambda client: welcome(client, name), kubeconfig, data_dir)


@click.command("delete")
@click.argument("target", metavar="pod/NAME")
@click.option("-n", "--namespace", default="default", show_default=True, help="Of the pod.")
@click.option(
    "--confirm",
    "confirmed",
    is_flag=True,
    help="Also if its node does not answer: its processes may go on there, and that does no harm.",
)
@KUBECONFIG
@DATA_DIR
def delete_pod(
    target: str, namespace: str, confirmed: bool, kubeconfig: str | None, data_dir: str | None
) -> None:
    """Deletes a pod. Where its node does not answer: says what a removal by force risks, and asks for
    --confirm.

    On a node that answers it is `kubectl delete pod`. With deploy/forced-removal.yaml a cluster refuses
    `kubectl delete pod --force` of a pod that may still run, and takes it from this command.
    """
    from mooring.cluster.forced_removal import delete

    kind, _, name = target.rpartition("/")
    if kind not in ("pod", "pods") or not name:
        raise click.UsageError(f"{target!r} is no pod: pod/NAME")
    _ask(lambda client: delete(client, namespace, name, confirmed=confirmed), kubeconfig, data_dir)


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


COMMANDS = (node, delete_pod, break_attachment)
