"""The options of `mooring controller` that are about attaching and detaching: upstream's names where it has
them.

`docs/attach-detach.md` has the table of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mooring.cli.durations import parse_duration

if TYPE_CHECKING:
    from mooring.controllers.attachdetach.controller import AttachDetachOptions
    from mooring.controllers.attacher.controller import AttacherOptions

F = TypeVar("F", bound=Callable[..., Any])
V = TypeVar("V")


def _duration(context: click.Context, parameter: click.Parameter, given: str) -> float:
    return float(parse_duration(given))


def _by_driver(form: str, read: Callable[[str], V | None]) -> Callable[..., dict[str, V]]:
    """`DRIVER=VALUE`, several times; `read` gives None for what is no value. `form` is for people."""

    def callback(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, V]:
        found: dict[str, V] = {}
        for entry in given:
            driver, _, text = entry.partition("=")
            value = read(text)
            if not driver or value is None:
                raise click.BadParameter(f"{entry!r}: it has the form {form}")
            found[driver] = value
        return found

    return callback


def _count(text: str) -> int | None:
    return int(text) if text.isdecimal() and int(text) else None


_truths = _by_driver("DRIVER=true or DRIVER=false", {"true": True, "false": False}.get)
_numbers = _by_driver("DRIVER=N, with N at least 1", _count)


def switch(name: str, help: str, default: bool = False) -> Callable[[F], F]:
    """A boolean option in upstream's forms: `--name`, `--name=true`, `--name=false`."""
    shown = str(default).lower()
    return click.option(
        name, is_flag=False, flag_value="true", default=shown, type=bool, show_default=True, help=help
    )


FORCE_DETACH_AFTER = click.option(
    "--force-detach-after",
    default="6m",
    show_default=True,
    callback=_duration,
    help="How long a volume that no pod wants there stays with a node that does not answer, where the storage "
    "is known to cut the node off at a detach; 0: for ever.",
)
NODE_DELETION_CONFIRMS_DEATH = click.option(
    "--node-deletion-confirms-death",
    type=click.Choice(["never", "pods", "all"]),
    default="pods",
    show_default=True,
    help="What the deletion of a Node object, once it has stayed away for 40 s, states about its machine: nothing; "
    "that its pods do not run any more; also that its volumes may move, where the storage cuts nodes off.",
)
OPTIONS = (
    FORCE_DETACH_AFTER,
    switch(
        "--disable-force-detach-on-timeout",
        "As --force-detach-after=0: only a fence or an operator releases what a silent node has.",
    ),
    NODE_DELETION_CONFIRMS_DEATH,
    click.option(
        "--detach-revokes-access",
        multiple=True,
        callback=_truths,
        metavar="DRIVER=true|false",
        help="Whether a detach by this CSI driver or plugin cuts the node off, against what is known of it.",
    ),
    click.option(
        "--disable-attach-detach-for",
        multiple=True,
        metavar="DRIVER",
        help="A CSI driver or plugin whose volumes another controller attaches.",
    ),
    switch(
        "--observe",
        "Decide, log and count, and write nothing: beside the controller that is in charge.",
    ),
    click.option(
        "--attach-detach-reconcile-sync-period",
        default="1m",
        show_default=True,
        callback=_duration,
        help="How often storages are asked whether what is recorded as attached still is.",
    ),
    switch("--disable-attach-detach-reconcile-sync", "Do not ask."),
    click.option(
        "--attach-workers",
        default=16,
        show_default=True,
        type=click.IntRange(min=1),
        help="How many requests to storages are under way at once.",
    ),
    click.option(
        "--attach-concurrency",
        multiple=True,
        callback=_numbers,
        metavar="DRIVER=N",
        help="How many of them to one plugin's storage.",
    ),
)


def attach_detach_options(command: F) -> F:
    """Adds the options to a command, which takes them as keyword arguments."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def attach_detach(
    *,
    force_detach_after: float,
    disable_force_detach_on_timeout: bool,
    node_deletion_confirms_death: str,
    detach_revokes_access: dict[str, bool],
    disable_attach_detach_for: Sequence[str],
    observe: bool,
    attach_detach_reconcile_sync_period: float,
    disable_attach_detach_reconcile_sync: bool,
    attach_workers: int,
    attach_concurrency: dict[str, int],
) -> tuple[AttachDetachOptions, AttacherOptions]:
    """What the two controllers are given."""
    from mooring.controllers.attachdetach.controller import AttachDetachOptions
    from mooring.controllers.attachdetach.state import Policy
    from mooring.controllers.attacher.controller import AttacherOptions

    if 0 < attach_detach_reconcile_sync_period < 1:
        raise click.UsageError("--attach-detach-reconcile-sync-period: at least 1s")
    period = 0.0 if disable_attach_detach_reconcile_sync else attach_detach_reconcile_sync_period
    policy = Policy(
        0.0 if disable_force_detach_on_timeout else force_detach_after, node_deletion_confirms_death == "all"
    )
    return (
        AttachDetachOptions(policy, detach_revokes_access, frozenset(disable_attach_detach_for), observe),
        AttacherOptions(attach_workers, attach_concurrency, period),
    )
