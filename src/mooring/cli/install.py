"""`mooring install`, `mooring uninstall`: the components on a real cluster."""

from __future__ import annotations

from pathlib import Path

import click

from mooring.cli.output import fail


def _named(context: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(each for each in value.split(",") if each)


@click.command()
@click.option(
    "--components", default="attach-detach", show_default=True, callback=_named, metavar="NAME,NAME",
    help="What is installed; `--components list` says what there is.",
)  # fmt: skip
@click.option(
    "--image", default="", help="The image that deploy/image/build made, where the cluster finds it."
)
@click.option("--replicas", type=click.IntRange(1, 9), default=None, help="Of each controller. [default: 2]")
@click.option(
    "--observe", is_flag=True, help="The attach/detach controller writes nothing, and says what it would do."
)
@click.option(
    "--chart", type=click.Path(path_type=Path), help="Writes a Helm chart of all components there instead."
)
def install(
    components: tuple[str, ...], image: str, replicas: int | None, observe: bool, chart: Path | None
) -> None:
    """Prints the objects of components, for `kubectl apply -f -`.

    The attach/detach controller takes the place of kube-controller-manager's, which must be switched off
    first: docs/attach-detach.md. `mooring install --check` looks whether the cluster suits it.
    """
    from mooring.install import components as parts

    if components == ("list",):
        for name, each in parts.COMPONENTS.items():
            click.echo(f"{name:28}{each.about}")
        return
    if chart is not None:
        _write_chart(chart)
        return
    if not image:
        fail(
            "no image is named: --image REGISTRY/NAME:TAG, which deploy/image/build made and you have pushed"
        )
    try:
        made = parts.objects(components, parts.Settings(image, replicas or 0, observe))
    except parts.Unknown as error:
        fail(str(error))
    import yaml

    click.echo(yaml.safe_dump_all(made, sort_keys=False), nl=False)


def _write_chart(folder: Path) -> None:
    """Raises OSError; an existing file of another hand is not overwritten."""
    from mooring.install.chart import chart

    if folder.exists() and any(folder.iterdir()) and not (folder / "Chart.yaml").exists():
        fail(f"{folder} is not empty, and is no chart: nothing was written")
    for name, text in chart().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    click.echo(f"{folder}: helm install mooring {folder} --set image.repository=REGISTRY/mooring")


COMMANDS = (install,)
