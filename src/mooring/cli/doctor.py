"""`mooring doctor`: what this machine lacks for a cluster."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

import click

from mooring.cli.nodes import DATA_DIR
from mooring.cli.output import print_findings


@click.command()
@DATA_DIR
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def doctor(data_dir: str | None, output: str) -> None:
    """Says what this machine lacks for a cluster, and what killed runs have left; each with how to mend it.

    Changes nothing. The status is 1 if `mooring up` would fail.
    """
    from mooring.cluster.doctor.diagnosis import diagnose
    from mooring.cluster.doctor.examination import examine
    from mooring.cluster.layout import open_layout

    found = diagnose(examine(open_layout(data_dir)))
    if output == "json":
        click.echo(json.dumps([asdict(each) for each in found], indent=2))
    else:
        print_findings([(each.level, each.what, each.mend) for each in found])
    if any(each.level == "mend" for each in found):
        sys.exit(1)


COMMANDS = (doctor,)
