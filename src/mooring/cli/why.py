"""`mooring why`: why an object is stuck, on any cluster that a kubeconfig leads to. Reads only."""

from __future__ import annotations

import asyncio
import json
import os
import sys

import click

from mooring.cli.output import fail, log_lines
from mooring.cli.parts import KUBECONFIG


@click.command()
@click.argument("target", required=False, metavar="[KIND/NAME]")
@click.option("-n", "--namespace", default="default", show_default=True, help="Of the pod, claim, ...")
@click.option("--all", "everything", is_flag=True, help="All that is stuck now, a line each.")
@click.option("-w", "--watch", is_flag=True, help="With --all: goes on until Ctrl-C, and shows each change.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@KUBECONFIG
def why(
    target: str | None, namespace: str, everything: bool, watch: bool, output: str, kubeconfig: str | None
) -> None:
    """Says why something is stuck, and what can be done.

    KIND/NAME is pod/NAME, pvc/NAME, pv/NAME, node/NAME, nodefence/NAME, ns/NAME, sts/NAME (StatefulSet),
    deploy/NAME, snapshot/NAME (VolumeSnapshot).

    It runs the controllers' own decisions on what the cluster says, and changes nothing. The exit status is 0
    when nothing is wrong, and 1 when something is.
    """
    log_lines("error")
    if watch:
        if not everything or output == "json":
            raise click.UsageError(
                "--watch is of --all, and a line for each object: not of one, nor of -o json"
            )
        _follow(kubeconfig)
        return
    from mooring.kube import config
    from mooring.kube.times import wall_clock
    from mooring.volumes.host import ControllerVolumeHost
    from mooring.volumes.plugin_manager import load_plugins
    from mooring.why import text
    from mooring.why.explain import KINDS, NoSuchObject, explain, stuck
    from mooring.why.snapshot import Snapshot, read

    if everything == (target is not None):
        raise click.UsageError(
            f"name one object ({', '.join(f'{each}/NAME' for each in KINDS)}), or give --all"
        )

    async def known() -> Snapshot:
        client = config.connect(os.environ, kubeconfig)
        try:
            return await read(client, load_plugins(ControllerVolumeHost(wall_clock)))
        finally:
            await client.close()

    snapshot = asyncio.run(known())
    try:
        causes = list(stuck(snapshot)) if target is None else [explain(target, namespace, snapshot)]
    except NoSuchObject as error:
        fail(str(error))
    if output == "json":
        answers = [cause.as_json() for cause in causes]
        click.echo(json.dumps(answers if everything else answers[0], indent=2))
    elif everything:
        click.echo(
            "\n".join(text.one_line(cause, wall_clock(), _paint) for cause in causes) or "nothing is stuck"
        )
    else:
        click.echo("\n".join(text.lines(causes[0], wall_clock(), _paint)))
        if line := text.more_line(causes[0], _paint):
            click.echo(line)
    sys.exit(0 if all(cause.ok for cause in causes) else 1)


def _follow(kubeconfig: str | None) -> None:
    from mooring.cli.why_view import WhyView
    from mooring.cluster.live import follow
    from mooring.kube import config
    from mooring.kube.times import wall_clock
    from mooring.volumes.host import ControllerVolumeHost
    from mooring.volumes.plugin_manager import load_plugins

    async def watch() -> None:
        client = config.connect(os.environ, kubeconfig)
        view = WhyView(load_plugins(ControllerVolumeHost(wall_clock)), wall_clock)
        try:
            await follow(client, view, sys.stdout, tick_s=1.0)
        finally:
            await client.close()

    asyncio.run(watch())


def _paint(text: str, colour: str) -> str:
    """click drops the colours where standard output is not a terminal."""
    return click.style(text, bold=True) if colour == "bold" else click.style(text, fg=colour)


COMMANDS = (why,)
