"""`mooring install`, `mooring uninstall`: the components on a real cluster."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mooring.cli.output import fail, print_findings
from mooring.cli.parts import KUBECONFIG
from mooring.kube.printable import printable

if TYPE_CHECKING:
    from mooring.kube.client import Client

T = TypeVar("T")


def _named(context: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(each for each in value.split(",") if each)


@click.command()
@click.option(
    "--components",
    default="attach-detach",
    show_default=True,
    callback=_named,
    metavar="NAME,NAME",
    help="What is installed; `--components list` says what there is.",
)
@click.option(
    "--image", default="", help="The image that deploy/image/build made, where the cluster finds it."
)
@click.option("--replicas", type=click.IntRange(1, 9), help="Of each controller. [default: 2]")
@click.option(
    "--observe", is_flag=True, help="The attach/detach controller writes nothing, and says what it would do."
)
@click.option(
    "--chart", type=click.Path(path_type=Path), help="Writes a Helm chart of all components there instead."
)
@click.option(
    "--check", is_flag=True, help="Looks whether the cluster suits the components instead; changes nothing."
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Of --check.",
)
@KUBECONFIG
def install(
    components: tuple[str, ...],
    image: str,
    replicas: int | None,
    observe: bool,
    chart: Path | None,
    check: bool,
    output: str,
    kubeconfig: str | None,
) -> None:
    """Prints the objects of components, for `kubectl apply -f -`.

    The attach/detach controller takes the place of kube-controller-manager's, which must be switched off
    first: docs/attach-detach.md. With --check, what is there, which rights are missing, and which controllers
    would fight are said, each with what to do; the status is 1 if something must be mended.
    """
    from mooring.install import components as parts

    if components == ("list",):
        for name, each in parts.COMPONENTS.items():
            click.echo(f"{name:28}{each.about}")
        return
    if chart is not None:
        _write_chart(chart)
        return
    if not image and not check:
        fail(
            "no image is named: --image REGISTRY/NAME:TAG, which deploy/image/build made and you have pushed"
        )
    try:
        made = parts.objects(components, parts.Settings(image, replicas or 0, observe))
    except parts.Unknown as error:
        fail(str(error))
    if check:
        _check(components, made, output, kubeconfig)
        return
    import yaml

    click.echo(yaml.safe_dump_all(made, sort_keys=False), nl=False)


def _check(
    components: tuple[str, ...], made: list[dict[str, Any]], output: str, kubeconfig: str | None
) -> None:
    from mooring.install.check import check
    from mooring.install.cluster import read

    found = check(components, _ask(lambda client: read(client, made), kubeconfig))
    if output == "json":
        click.echo(json.dumps([asdict(each) for each in found], indent=2))
    else:
        print_findings([(each.level, each.what, each.mend) for each in found])
    if any(each.level == "mend" for each in found):
        sys.exit(1)


def _ask(work: Callable[[Client], Awaitable[T]], kubeconfig: str | None) -> T:
    """Asks the cluster of the kubeconfig. Raises KubeError."""
    from mooring.kube import config

    async def run() -> T:
        client = config.connect(os.environ, kubeconfig)
        try:
            return await work(client)
        finally:
            await client.close()

    return asyncio.run(run())


def _write_chart(folder: Path) -> None:
    """Raises OSError; a folder of another hand is left as it is."""
    from mooring.install.chart import chart

    if folder.exists() and any(folder.iterdir()) and not (folder / "Chart.yaml").exists():
        fail(f"{folder} is not empty, and is no chart: nothing was written")
    for name, text in chart().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    click.echo(f"{folder}: helm install mooring {folder} --set image.repository=REGISTRY/mooring")


@click.command()
@click.option("--confirm", is_flag=True, help="Does it; without this, what would be done is said.")
@click.option(
    "--nothing-runs",
    is_flag=True,
    help="You say that no `mooring up` and no `mooring controller` works on this cluster.",
)
@KUBECONFIG
def uninstall(confirm: bool, nothing_runs: bool, kubeconfig: str | None) -> None:
    """Takes all of Mooring out of a cluster: its parts, its marks on volumes, nodes and claims, its kinds.

    Refused while a node is fenced, or while volumes are attached that no other driver would detach. Volumes
    stay attached, and pods run on: enable kube-controller-manager's attach/detach controller after it.
    """
    from mooring.install.uninstall import Refused
    from mooring.install.uninstall import uninstall as take_out

    if not confirm:
        _say_plan(kubeconfig, nothing_runs)
        return
    try:
        _ask(lambda client: take_out(client, click.echo, nothing_runs=nothing_runs), kubeconfig)
    except Refused as error:
        fail(str(error))
    click.echo("nothing of Mooring is left; enable kube-controller-manager's attach/detach controller now")


def _say_plan(kubeconfig: str | None, nothing_runs: bool) -> None:
    from mooring.install.remains import refusals
    from mooring.install.uninstall import planned, read

    remains = _ask(read, kubeconfig)
    for line in planned(remains) or ["nothing of Mooring is there"]:
        click.echo(printable(line))
    for reason in refusals(remains, nothing_runs=nothing_runs):
        click.echo(f"{click.style('refused', fg='red')}: {printable(reason)}")
    click.echo("nothing was changed; to do it: mooring uninstall --confirm")


COMMANDS = (install, uninstall)
