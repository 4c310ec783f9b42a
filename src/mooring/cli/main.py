"""`mooring`: the entry of the command line. Also runs as `kubectl mooring`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from mooring import __version__
from mooring.cli.groups import Group
from mooring.cli.output import fail

ROOMS: Mapping[str, str] = {
    **dict.fromkeys(("up", "down", "demo"), "cluster"),
    **dict.fromkeys(("node", "delete", "break-attachment"), "nodes"),
    "fence": "fence",
    **dict.fromkeys(("install", "uninstall"), "install"),
    "machine": "machines",
    "status": "status",
    "storage": "storage",
    "disk": "disks",
    "logs": "logs",
    "version": "version",
    "why": "why",
    "reason": "reason",
    "page": "page",
    "simulate": "simulate",
    "completion": "completion",
    "csi": "csi_driver",
    "doctor": "doctor",
    "ebs-driver": "ebs_driver",
    "cloud": "cloud",
    **dict.fromkeys(("apiserver", "controller", "agent"), "parts"),
}
"""The module of each command, which has it in its `COMMANDS`."""


class _Commands(Group):
    """Loads the module of the command that was given, and no other: a machine that boots waits for it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(ROOMS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in ROOMS:
            return None
        commands = importlib.import_module(f"mooring.cli.{ROOMS[cmd_name]}").COMMANDS
        return next(command for command in commands if command.name == cmd_name)


@click.group(
    cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(__version__, prog_name="mooring")
def cli() -> None:
    """Mooring: a Kubernetes storage control plane.

    `mooring up` is a cluster in one command: API server, controllers, and nodes with real block devices.
    """


def _called() -> str:
    """What the one who asks has typed: kubectl runs a program of another name."""
    name = Path(sys.argv[0]).name
    return {"kubectl-mooring": "kubectl mooring", "main.py": "mooring", "-c": "mooring"}.get(name, name)


def main() -> None:
    """Runs a command; errors that a user can mend end it in one line and with status 1."""
    from mooring.cluster.layout import ClusterError
    from mooring.kube.errors import KubeError
    from mooring.linear_patterns import CXX_LIBRARY, CXX_PACKAGE, LibraryMissing

    try:
        cli(prog_name=_called(), standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (ClusterError, KubeError, LibraryMissing) as error:
        fail(str(error))
    except ImportError as error:
        if CXX_LIBRARY not in str(error):
            raise
        fail(f"{error}: install the C++ library (Debian: apt-get install {CXX_PACKAGE})")
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)


if __name__ == "__main__":
    main()
