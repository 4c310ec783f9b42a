"""`mooring storage …`: servers of NFS, iSCSI and NBD that the machines of a running cluster use, and who is
shut out of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from mooring.cli.groups import Group
from mooring.cli.nodes import DATA_DIR
from mooring.cli.output import log_lines, print_table
from mooring.kube.printable import printable


@click.group(cls=Group)
def storage() -> None:
    """Storage servers (NFS, iSCSI, NBD) with addresses of their own, for machines with a kernel of their
    own."""


def _sized(function: Callable[..., None]) -> Callable[..., None]:
    return click.option(
        "--size",
        default="1Gi",
        show_default=True,
        metavar="QUANTITY",
        help="16Mi to 1Ti, taken as it is filled.",
    )(function)


DISKS = click.option(
    "--disks", type=click.IntRange(1, 16), default=1, show_default=True, help="How many, each of that size."
)


@storage.command()
@click.argument("name")
@_sized
@DATA_DIR
def nfs(name: str, size: str, data_dir: str | None) -> None:
    """Starts an NFS 4.2 server: the kernel's nfsd in a machine of its own."""
    _order(data_dir, "storage-add", name, kind="nfs", size=size)


@storage.command()
@click.argument("name")
@_sized
@DISKS
@DATA_DIR
def iscsi(name: str, size: str, disks: int, data_dir: str | None) -> None:
    """Starts an iSCSI target (tgtd); its disks are LUN 1 and on, with SCSI-3 persistent reservations."""
    _order(data_dir, "storage-add", name, kind="iscsi", size=size, disks=disks)


@storage.command()
@click.argument("name")
@_sized
@DISKS
@DATA_DIR
def nbd(name: str, size: str, disks: int, data_dir: str | None) -> None:
    """Starts an NBD server (nbdkit); its disks are the exports disk-1 and on."""
    _order(data_dir, "storage-add", name, kind="nbd", size=size, disks=disks)


@storage.command("list")
@DATA_DIR
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table")
def list_servers(data_dir: str | None, output: str) -> None:
    """Shows each server: who is connected, who is shut out, and the commands with which a machine uses it."""
    from mooring.cluster.storage.shown import HEADER, SAID, row
    from mooring.cluster.tables import text

    found: list[dict[str, Any]] = json.loads(_say(data_dir, SAID, ""))
    if output == "json":
        click.echo(json.dumps(found, indent=2))
        return
    print_table([HEADER, *([text(cell) for cell in row(each)] for each in found)])
    for each in found:
        for command in each.get("commands", {}).values():
            click.echo(f"\n{printable(each['name'])}: {printable(command)}")


@storage.command("shut-out")
@click.argument("name")
@click.argument("node")
@DATA_DIR
def shut_out(name: str, node: str, data_dir: str | None) -> None:
    """A node's machine and pods cannot use a server any more: what it has open there is closed, and it is
    refused until it is let in. Returns when that is so."""
    _order(data_dir, "storage-shut-out", name, node=node)


@storage.command("let-in")
@click.argument("name")
@click.argument("node")
@DATA_DIR
def let_in(name: str, node: str, data_dir: str | None) -> None:
    """A node may use a server again. What its kernel still holds back for the server is written then:
    restart the machine first if another has taken over."""
    _order(data_dir, "storage-let-in", name, node=node)


@storage.command()
@click.argument("name")
@click.option("--delete-data", is_flag=True, help="Also what it served.")
@DATA_DIR
def remove(name: str, delete_data: bool, data_dir: str | None) -> None:
    """Takes a server away; refused while a machine that may use it is connected. Its data is kept for a
    server of the same name, kind and size."""
    _order(data_dir, "storage-remove", name, delete_data=delete_data)


@storage.command(hidden=True)
@click.argument("directory", type=click.Path(path_type=Path))
@click.argument("sockets", type=click.Path(path_type=Path))
def serve(directory: Path, sockets: Path) -> None:
    """Serves iSCSI or NBD: a part of `mooring up`."""
    from mooring.cli.parts import run_until_signalled
    from mooring.cluster.storage import serving

    log_lines("info")
    run_until_signalled(serving.serve(directory, sockets))


def _order(data_dir: str | None, command: str, name: str, **options: str | int | bool) -> None:
    click.echo(_say(data_dir, command, name, **options))


def _say(data_dir: str | None, command: str, name: str, **options: str | int | bool) -> str:
    from mooring.cluster.control import say
    from mooring.cluster.layout import open_layout

    return asyncio.run(say(open_layout(data_dir).control, command, name, options))


COMMANDS = (storage,)
