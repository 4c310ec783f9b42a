"""`mooring`: the entry of the command line. Also runs as `kubectl mooring`."""

from __future__ import annotations

import sys

import click

from mooring import __version__
from mooring.cli import (
    cloud,
    cluster,
    csi_driver,
    disks,
    ebs_driver,
    fence,
    logs,
    machines,
    nodes,
    parts,
    simulate,
    storage,
    why,
)
from mooring.cli.output import fail


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="mooring")
def cli() -> None:
    """Mooring: a Kubernetes storage control plane.

    `mooring up` is a cluster in one command: API server, controllers, and nodes with real block devices.
    """


for command in (
    *cluster.COMMANDS,
    *nodes.COMMANDS,
    *fence.COMMANDS,
    *machines.COMMANDS,
    *storage.COMMANDS,
    *disks.COMMANDS,
    *logs.COMMANDS,
    *why.COMMANDS,
    *simulate.COMMANDS,
    *csi_driver.COMMANDS,
    *ebs_driver.COMMANDS,
    *cloud.COMMANDS,
    *parts.COMMANDS,
):
    cli.add_command(command)


def main() -> None:
    """Runs a command; errors that a user can mend end it in one line and with status 1."""
    from mooring.cluster.layout import ClusterError
    from mooring.kube.errors import KubeError

    try:
        cli(standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (ClusterError, KubeError) as error:
        fail(str(error))
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)


if __name__ == "__main__":
    main()
