"""`mooring fence …`: fences of nodes, by a person's hand."""

from __future__ import annotations

import asyncio
import getpass
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import click

from mooring.cli.groups import Group
from mooring.cli.nodes import DATA_DIR, KUBECONFIG, confirm_dead
from mooring.cli.output import fail, print_table

if TYPE_CHECKING:
    from mooring.kube.client import Client
    from mooring.kube.objects.fencing import StorageFence

T = TypeVar("T")
OUTPUT = click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True
)


@click.group(cls=Group)
def fence() -> None:
    """Cuts lost nodes off, so that what they had may move; says what was shown, and what is waited for."""


def _ask(work: Callable[[Client], Awaitable[T]], kubeconfig: str | None, data_dir: str | None) -> T:
    from mooring.cluster.layout import ClusterError, open_layout
    from mooring.kube import config

    layout = open_layout(data_dir)
    given = kubeconfig or (str(layout.kubeconfig) if layout.kubeconfig.exists() else None)

    async def run() -> T:
        client = config.connect(os.environ, given)
        try:
            return await work(client)
        finally:
            await client.close()

    try:
        return asyncio.run(run())
    except ClusterError as error:
        fail(str(error))


@fence.command("list")
@OUTPUT
@KUBECONFIG
@DATA_DIR
def list_(output: str, kubeconfig: str | None, data_dir: str | None) -> None:
    """Says which nodes are fenced, how far that is, and what is waited for, for how many seconds yet where
    that is known; the last fence first. Below them: the volumes that nodes are shut out of."""
    from mooring.cluster.fences import as_json, listed
    from mooring.kube.times import wall_clock

    found, now = _ask(listed, kubeconfig, data_dir), wall_clock()
    if output == "json":
        click.echo(json.dumps([as_json(*each, now) for each in found], indent=2))
        return
    if not found:
        click.echo("no node has been fenced")
        return
    rows = [["NODE", "PHASE", "SINCE", "LEFT", "MESSAGE"]]
    for each, wait, _ in found:
        status = each.status
        left = f"{wait.left(now)} s" if wait is not None else ""
        since = status.released_at or each.metadata.creation_timestamp or ""
        rows.append([each.spec.node_name, status.phase or "Pending", since[:19], left, status.message])
    print_table(rows)
    volumes = [of for each in found for of in each.volumes]
    if volumes:
        click.echo()
        head = ["VOLUME", "NODE", "PHASE", "SINCE", "MESSAGE"]
        print_table([head, *(_of_volume(each) for each in volumes)])


def _of_volume(each: StorageFence) -> list[str]:
    since = each.status.released_at or each.metadata.creation_timestamp or ""
    phase = each.status.phase or "Pending"
    return [each.spec.volume, each.spec.node_name, phase, since[:19], each.status.message]


@fence.command()
@click.argument("node")
@click.option("--reason", default="", help="Why; it is kept with the fence.")
@click.option("--uid", default="", help="Which registration of the node, where its Node object is gone.")
@click.option(
    "--wait/--no-wait", default=True, show_default=True, help="Until it is in force, or a person is asked."
)
@KUBECONFIG
@DATA_DIR
def request(
    node: str, reason: str, uid: str, wait: bool, kubeconfig: str | None, data_dir: str | None
) -> None:
    """Asks that a node be cut off now, whether it answers or not: its policy's mechanisms are tried in turn.

    What it had is released only when a mechanism has shown that it is cut off. It comes back with
    `mooring fence release`.
    """
    from mooring.cluster import fences
    from mooring.kube.times import wall_clock
    from mooring.volumes.node_fences import Phase

    async def work(client: Client) -> int:
        made = await fences.request(
            client, node, uid=uid, by=getpass.getuser(), reason=reason, now=wall_clock
        )
        click.echo(f"NodeFence {made.name} is made: the node is to be cut off")
        if not wait:
            return 0
        last = made
        async for each in fences.followed(client, made):
            last = each
            click.echo(f"{each.status.phase or 'Pending'}: {each.status.message}")
        return 0 if last.status.phase in (Phase.FENCED, Phase.UNFENCED) else 1

    sys.exit(_ask(work, kubeconfig, data_dir))


@fence.command()
@click.argument("node")
@KUBECONFIG
@DATA_DIR
def release(node: str, kubeconfig: str | None, data_dir: str | None) -> None:
    """Has a node's fence taken back: a machine that was switched off is switched on, one that was shut out is
    let in after its next boot. Without a fence: takes a node that is back into service (`mooring node
    welcome`)."""
    from mooring.cluster.fences import release

    click.echo(_ask(lambda client: release(client, node), kubeconfig, data_dir))


@fence.command("test")
@click.argument("nodes", nargs=-1)
@click.option("--mechanism", "mechanisms", multiple=True, help="Only this one; several.")
@OUTPUT
@KUBECONFIG
@DATA_DIR
def test_(
    nodes: tuple[str, ...],
    mechanisms: tuple[str, ...],
    output: str,
    kubeconfig: str | None,
    data_dir: str | None,
) -> None:
    """Asks each mechanism about each of its nodes, from this machine and without harm. Status 1 if one does
    not know a node."""
    from mooring.cluster.fences import tried
    from mooring.fence.interface import State
    from mooring.fence.registry import load

    found = load()
    for name, why in found.broken.items():
        click.echo(f"mechanism {name} cannot be loaded: {why}", err=True)
    results = _ask(lambda client: tried(client, found.by_kind, nodes, mechanisms), kubeconfig, data_dir)
    if output == "json":
        click.echo(json.dumps([each._asdict() for each in results], indent=2))
    elif not results:
        click.echo("there is no FenceMechanism, or none that knows these nodes: see docs/fencing.md")
    else:
        rows = [["MECHANISM", "NODE", "STATE", "MESSAGE"]]
        rows += [[each.mechanism, each.node, _word(each.scope, each.state), each.message] for each in results]
        print_table(rows)
    sys.exit(1 if not results or any(each.state == State.UNKNOWN for each in results) else 0)


def _word(scope: str, state: str) -> str:
    """What a mechanism of that scope says, for a person."""
    from mooring.fence.interface import Scope, State

    is_open, is_shut = ("on", "off") if scope == Scope.POWER else ("let in", "shut out")
    return {State.OPEN: is_open, State.SHUT: is_shut, State.UNKNOWN: "unknown"}[State(state)]


@fence.command()
@click.argument("node")
@click.option("--patience", default="5m", show_default=True, metavar="TIME", help="For each step: 90s, 10m.")
@click.confirmation_option(prompt="The node's pods are moved, and its machine is really switched off. Go on?")
@KUBECONFIG
@DATA_DIR
def drill(node: str, patience: str, kubeconfig: str | None, data_dir: str | None) -> None:
    """Practises a fence: drains a node, cuts it off for real, shows that it is silent, and brings it back.

    The first step that fails ends it, and says how the node is left.
    """
    from mooring.cli.durations import parse_duration
    from mooring.cluster.drill import drill
    from mooring.kube.times import wall_clock

    seconds = parse_duration(patience)

    async def work(client: Client) -> None:
        await drill(client, node, by=getpass.getuser(), now=wall_clock, say=click.echo, patience=seconds)

    _ask(work, kubeconfig, data_dir)


@fence.command()
def kinds() -> None:
    """Prints the definitions of the kinds of fences and their policies, for `kubectl apply -f -`."""
    import yaml

    from mooring.controllers.fencing.kinds import FENCING_KINDS

    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    click.echo(yaml.safe_dump_all([{**head, **each} for each in FENCING_KINDS], sort_keys=False), nl=False)


@fence.command()
def mechanisms() -> None:
    """Lists the types of mechanisms that are installed, and their parameters."""
    from mooring.controllers.fencing.host_agent import HostAgent
    from mooring.fence.registry import load

    found = load()
    for name, mechanism in sorted({**found.by_kind, HostAgent.kind: HostAgent}.items()):
        click.echo(f"{name} (scope {mechanism.scope}): {mechanism.summary}")
        for parameter, said in mechanism.parameters.items():
            notes = [
                word
                for word, holds in (
                    ("required", said.required),
                    ("from a Secret", said.secret),
                    ("one for each node", said.per_node),
                )
                if holds
            ]
            marked = f" ({', '.join(notes)})" if notes else ""
            click.echo(f"    {parameter}{marked}: {said.summary}")
    for name, why in sorted(found.broken.items()):
        click.echo(f"{name} cannot be loaded: {why}", err=True)


fence.add_command(confirm_dead, "confirm")
COMMANDS = (fence,)
