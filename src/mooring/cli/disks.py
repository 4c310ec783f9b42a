"""`mooring disk`: faults of the disks of this machine's array: slow, failing, stuck."""

from __future__ import annotations

import click

from mooring.cli.nodes import DATA_DIR

OPERATIONS = ("attach", "detach", "expand", "delete")
DELAYS = ("attach", "attachReply", "detach", "detachReply")


@click.command()
@click.argument("name", required=False)
@DATA_DIR
@click.option(
    "--fail", multiple=True, type=click.Choice(OPERATIONS), help="An operation that fails from now on."
)
@click.option("--stick", multiple=True, type=click.Choice(OPERATIONS), help="An operation that does not end.")
@click.option("--delay", multiple=True, metavar="WHAT=SECONDS", help=f"One of {', '.join(DELAYS)}.")
def disk(
    name: str | None,
    data_dir: str | None,
    fail: tuple[str, ...],
    stick: tuple[str, ...],
    delay: tuple[str, ...],
) -> None:
    """Makes the storage misbehave, to see what becomes of pods.

    Without NAME: lists the disks. NAME is a disk's, which is its PersistentVolume's. What is not given is as
    it should be: so `mooring disk NAME` alone ends all trouble.
    """
    import msgspec

    from mooring.cluster.layout import open_layout
    from mooring.volumes.errors import VolumeNotFound
    from mooring.volumes.plugins.disk_array import Delays, DiskArray, Trouble

    array = DiskArray(open_layout(data_dir).array)
    if name is None:
        for each, record in array.list().items():
            faults = [f"{op} fails" for op in record.trouble.fail] + [
                f"{op} sticks" for op in record.trouble.stick
            ]
            nodes = ", ".join(record.nodes) or "detached"
            click.echo("  ".join((each, f"{record.size >> 20} MiB", nodes, *faults)))
        return
    delays = msgspec.convert(_seconds(delay), Delays)
    try:
        array.set_trouble(name, Trouble(fail, stick))
        array.set_delays(name, delays)
    except VolumeNotFound as error:
        raise click.ClickException(f"{error}. `mooring disk` lists them") from error


def _seconds(given: tuple[str, ...]) -> dict[str, float]:
    found: dict[str, float] = {}
    for entry in given:
        what, _, number = entry.partition("=")
        if what not in DELAYS or not number.replace(".", "", 1).isdigit():
            raise click.UsageError(
                f"--delay {entry!r}: it has the form WHAT=SECONDS, WHAT one of {', '.join(DELAYS)}"
            )
        found[what] = float(number)
    return found


COMMANDS = (disk,)
