"""`mooring csi trace`: every call of the CSI drivers of a cluster, with its answer and how long it took."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import click

from mooring.cli.nodes import DATA_DIR
from mooring.cli.output import fail
from mooring.kube.printable import printable

LOOK_S = 0.2


@click.command()
@DATA_DIR
@click.option("--follow", "-f", is_flag=True, help="Go on with calls as they end.")
@click.option("--driver", help="Only this driver's.")
@click.option("--method", "methods", multiple=True, help="Only these methods: NodeStageVolume, ...")
@click.option("--failed", is_flag=True, help="Only calls that did not end with OK.")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", help="json: one call a line."
)
def trace(
    data_dir: str | None,
    follow: bool,
    driver: str | None,
    methods: tuple[str, ...],
    failed: bool,
    output: str,
) -> None:
    """Shows the calls of CSI drivers that `mooring up --csi` has noted, without secrets."""
    from mooring.cluster.layout import open_layout
    from mooring.csi.trace import shown

    layout = open_layout(data_dir)
    if not layout.csi_trace.exists() and not follow:
        fail(f"no CSI driver was called in {layout.root}: start it with `mooring up --csi NAME=ADDRESS`")

    def wanted(call: dict[str, Any]) -> bool:
        named = (not driver or call["driver"] == driver) and (not methods or call["method"] in methods)
        return named and (not failed or call["code"] != "OK")

    for call in calls(layout.csi_trace, follow):
        if wanted(call):
            lines = [json.dumps(call)] if output == "json" else map(printable, shown(call).split("\n"))
            click.echo("\n".join(lines))


def calls(path: Path, follow: bool) -> Iterator[dict[str, Any]]:
    """Those of a trace, of its older part first; those that come, too, if it is followed."""
    from mooring.csi.trace import older_part, read

    if (older := older_part(path)).exists():
        with older.open() as file:
            yield from read(_lines(file))
    while follow or path.exists():
        while not path.exists():
            time.sleep(LOOK_S)
        with path.open() as file:
            yield from read(_lines(file, path if follow else None))
        if not follow:
            return


def _lines(file: TextIO, followed: Path | None = None) -> Iterator[str]:
    """The lines so far; those that come, too, until another file is at the path that is `followed`."""
    rest = ""
    while True:
        others = followed is not None and _is_another(followed, file)
        piece: str = file.readline()
        if piece.endswith("\n"):
            yield rest + piece
            rest = ""
        elif followed is None or others:
            return
        else:
            rest += piece
            time.sleep(LOOK_S)


def _is_another(path: Path, file: TextIO) -> bool:
    try:
        return not os.path.samestat(os.stat(path), os.fstat(file.fileno()))
    except FileNotFoundError:
        return True


COMMANDS = (trace,)
